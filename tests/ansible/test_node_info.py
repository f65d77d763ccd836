"""What the collection's node_info tells of a node."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.install.hosts import HOSTS, LIKE, host_of
from linkhold.model import HostError
from support.collection import Task, end_of, module

if TYPE_CHECKING:
    from pathlib import Path

TABLE: dict[str, Any] = {f"{host.id} {host.version}": {} for host in HOSTS}
node_info = module("node_info")


def test_what_the_agent_has_not_read(tmp_path: Path) -> None:
    """Files that are newer than the agent's last start or reload are named, in no folder below."""
    for name, age_s in (("old", 60), ("new.pem", 10), ("relay.yaml", 10), ("future", -3600)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    (tmp_path / "relay").mkdir()

    assert node_info.unread(time.time() - 30, str(tmp_path)) == ["new.pem"]
    assert node_info.unread(0, str(tmp_path)) == []


class Systemd:
    """A task on a node whose systemd says this of every unit."""

    def __init__(self, *lines: str) -> None:
        self._said = "".join(f"{line}\n" for line in lines)

    def run_command(self, _command: list[str]) -> tuple[int, str, str]:
        """Return what `systemctl show` says."""
        return 0, self._said, ""


def test_when_the_agent_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A monotonic moment of systemd becomes one of the clock; without an agent it is none."""
    monkeypatch.setattr(node_info, "SYSTEMD", str(tmp_path))
    now_us = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    shown = f"StateChangeTimestampMonotonic={now_us - 5_000_000}"

    found = node_info.changed_s(Systemd("ActiveState=active", shown))
    assert found == pytest.approx(time.time() - 5, abs=1)
    assert node_info.changed_s(Systemd("ActiveState=failed", shown)) == 0


class Bare(Task):
    """A task on a node without systemd: of a program that is not there run_command makes an end."""

    def run_command(self, _command: list[str]) -> None:
        """End badly, as Ansible does."""
        self.fail_json(msg="Error executing command.")


def test_a_node_without_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where systemd does not run systemctl is not asked, and who serves a socket is foreign."""
    monkeypatch.setattr(node_info, "SYSTEMD", str(tmp_path / "systemd"))
    monkeypatch.setattr(node_info, "RUN", str(tmp_path))
    monkeypatch.setattr(node_info, "AnsibleModule", lambda *_, **__: Bare(hosts={}, like=None))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "control.sock"))
        server.listen()
        found = end_of(node_info.main)

    assert not found["failed"], found
    assert (found["systemd"], found["unread"]) == (False, [])
    assert found["foreign"].startswith(f"process {os.getpid()} listens on {tmp_path}/control.sock")


@given(
    st.sampled_from([*(host.id for host in HOSTS), *LIKE, "arch", ""]),
    st.sampled_from(["12", "22.04", "24.04", "9", "9.4", "90", "1", ""]),
)
def test_hosts_are_told_apart_as_the_agent_does(id_: str, version: str) -> None:
    """A distribution is known to the role exactly when `linkhold setup` knows it, as the same."""
    try:
        host = host_of(f"ID={id_}\nVERSION_ID={version}\n")
        wanted = f"{host.id} {host.version}"
    except HostError:
        wanted = ""

    assert node_info.host_key({"ID": id_, "VERSION_ID": version}, TABLE, LIKE) == wanted


def test_who_listens_is_found(tmp_path: Path) -> None:
    """The process behind a Unix socket is named, and 0 where nobody listens."""
    path = str(tmp_path / "s")
    assert node_info.listener_of(path) == 0
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        assert node_info.listener_of(path) == 0
        server.listen()
        assert node_info.listener_of(path) == os.getpid()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mono_ns": "x"}', '{"mono_ns": 0}'])
def test_a_damaged_state_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state file that cannot be used counts as no agent."""
    monkeypatch.setattr(node_info, "read", lambda _path: text)

    assert node_info.state() == {}


@pytest.mark.parametrize(
    ("text", "mode"),
    [("", ""), ("site: x\n", "observe"), ("mode: enforce\n", "enforce"), ("#mode: x\n", "observe")],
)
def test_the_mode_of_a_file(text: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration without a mode observes; no configuration has none."""
    monkeypatch.setattr(node_info, "read", lambda _path: text)

    assert node_info.mode() == mode
