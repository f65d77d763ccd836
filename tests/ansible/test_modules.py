"""The collection's modules by themselves: what they judge, ask for and look up."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.install.hosts import HOSTS, LIKE, host_of
from linkhold.model import HostError

if TYPE_CHECKING:
    from types import ModuleType

MODULES = Path(__file__).parents[2] / "ansible/plugins/modules"
TABLE: dict[str, Any] = {f"{host.id} {host.version}": {} for host in HOSTS}
WANTED = {
    "networks": ["ok"],
    "before": ["old"],
    "known_alerts": ["link.down", "path.dns_dead resolver 10.0.0.53"],
    "fleet": True,
    "settle_s": 3,
    "timeout_s": 10,
}


def module(name: str) -> ModuleType:
    """Import one of the collection's modules from its file.

    What Ansible has for modules patches ``sys.intern`` and more in the whole process, which torch
    does not survive: here only the name is there; the plays of the other tests run the real one.
    """
    basic = types.ModuleType("ansible.module_utils.basic")
    basic.AnsibleModule = object  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location(name, MODULES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for shown in ("ansible", "ansible.module_utils"):
            patch.setitem(sys.modules, shown, types.ModuleType(shown))
        patch.setitem(sys.modules, basic.__name__, basic)
        spec.loader.exec_module(made)
    return made


gate, node_info, service = module("gate"), module("node_info"), module("service")


def state(**changed: Any) -> dict[str, Any]:
    """Return the state of a node that is well, but for what is changed."""
    agent = {"leg_a": "up", "leg_b": "up: broker-a:8883", "outbox": "ok"}
    agent |= {name: changed.pop(name) for name in tuple(changed) if name in agent}
    return {"network": "ok", "cause": [], "alerts": [], "detail": {"agent": agent}, **changed}


def alert(**changed: str) -> dict[str, str]:
    """Return an alert."""
    told = {"fingerprint": "new", "type": "bond.degraded", "subject": "bond0"}
    return {**told, "severity": "warning", "text": "bond0 has 1 of 2 members", **changed}


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        (state(), []),
        (state(network="down", cause=["eth0 lost carrier"]), ["network is down (eth0 lost"]),
        (state(network="unknown"), ["network is unknown (no cause is known)"]),
        (state(leg_a="down: refused"), ["the node's own broker is down: refused"]),
        (state(leg_b="connecting"), ["the connection to the fleet's broker is connecting"]),
        (state(outbox="volatile: no space"), ["the outbox is volatile: no space"]),
        (state(alerts=[alert()]), ["new alert bond.degraded bond0: bond0 has 1 of 2 members"]),
        (state(alerts=[alert(fingerprint="old")]), []),
        (state(alerts=[alert(severity="info")]), []),
        (state(alerts=[alert(type="link.down", subject="eth3")]), []),
        (state(alerts=[alert(type="path.dns_dead", subject="resolver 10.0.0.53")]), []),
        (state(alerts=[alert(type="path.dns_dead", subject="resolver ::1")]), ["new alert path"]),
    ],
)
def test_the_gate_judges(document: dict[str, Any], wrong: list[str]) -> None:
    """Each thing that is not well has its words; old, known and informing alerts have none."""
    found = gate.judge(document, WANTED)

    assert len(found) == len(wrong)
    assert all(text.startswith(start) for text, start in zip(found, wrong, strict=True))


def test_a_node_without_a_fleet_needs_none() -> None:
    """Where no broker of a fleet is configured, none must be up."""
    assert gate.judge(state(leg_b="off"), {**WANTED, "fleet": False}) == []


class Host:
    """An AnsibleModule on a node whose answers are scripted, one a second."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.params = WANTED
        self.now_s = 0.0
        self._answers = answers

    def run_command(self, _command: list[str]) -> tuple[int, str, str]:
        """Return the answer of this second, the last one ever after."""
        return self._answers[min(int(self.now_s), len(self._answers) - 1)]

    def monotonic(self) -> float:
        """Stand in for time.monotonic()."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Stand in for time.sleep()."""
        self.now_s += seconds


WELL, ILL = (0, json.dumps(state()), ""), (0, json.dumps(state(network="down")), "")
GONE = (1, "", "linkhold: no agent runs")


@pytest.mark.parametrize(
    ("answers", "took_s", "wrong"),
    [
        ((WELL,), 3, []),
        ((GONE, ILL, WELL), 5, []),
        ((WELL, WELL, ILL, WELL), 6, []),
        ((ILL,), 10, ["network is down (no cause is known)"]),
        ((GONE,), 10, ["the agent does not answer: linkhold: no agent runs"]),
        (((0, "{", ""),), 10, ["linkhold status --json gave no JSON"]),
        ((*[ILL] * 9, WELL), 10, ["it was well only at the very end of the time"]),
    ],
)
def test_the_gate_waits(
    answers: Any, took_s: float, wrong: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens after a time without anything wrong, and stays closed at the end of its time."""
    host = Host(*answers)
    monkeypatch.setattr(gate, "time", host)

    assert gate.wait(host, 0.0) == wrong
    assert host.now_s == took_s


def test_the_gate_tells_what_brokers_refuse() -> None:
    """Of `linkhold check --connect` only what is wrong is told; a broker that is right is not."""
    said = "configuration OK\na:8883: right for n1: its own\nb:8883: cannot be asked: refused\n"
    host = Host((1, said, ""))

    assert gate.brokers(host) == ["the fleet's broker b:8883: cannot be asked: refused"]


@pytest.mark.parametrize("silent", [(2, "", ""), (70, "configuration OK\n", "")])
def test_the_gate_is_closed_when_a_check_fails_without_words(silent: tuple[int, str, str]) -> None:
    """A check that fails and says nothing is no pass."""
    assert gate.brokers(Host(silent)) == [f"linkhold check --connect ended with {silent[0]}"]


class Task:
    """What Ansible gives a module: parameters, and ends that are exceptions here."""

    def __init__(self, check_mode: bool = False, **params: Any) -> None:  # noqa: FBT001, FBT002
        self.params, self.check_mode = params, check_mode

    def exit_json(self, **result: Any) -> None:
        """End well."""
        raise Ended({"failed": False, **result})

    def fail_json(self, **result: Any) -> None:
        """End badly."""
        raise Ended({"failed": True, **result})


class Ended(Exception):
    """The end of a module, with its result."""


def end_of(what: Any, *arguments: Any) -> dict[str, Any]:
    """Return the result with which a call ends the module."""
    with pytest.raises(Ended) as ended:
        what(*arguments)
    result: dict[str, Any] = ended.value.args[0]
    return result


def test_what_closed_the_gate_is_none_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the gate opens, the alerts of before are those of the first try."""
    kept = tmp_path / "gate.json"
    tries = iter([["link is down"], [], []])
    monkeypatch.setattr(gate, "KEPT", str(kept))
    monkeypatch.setattr(gate, "wait", lambda *_: next(tries))
    monkeypatch.setattr(node_info, "GATE", str(kept))
    for before, failed in ((["old"], True), (["old", "new"], False)):
        task = Task(before=before, fleet=False)
        monkeypatch.setattr(gate, "AnsibleModule", lambda *_, task=task, **__: task)
        assert end_of(gate.main)["failed"] is failed
        assert node_info.before(["old", "new"]) == (["old"] if failed else ["old", "new"])


@pytest.mark.parametrize("text", ["", "{", "[1", '"x"'])
def test_a_damaged_memory_of_the_gate_is_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no list is as if no gate had been closed."""
    monkeypatch.setattr(node_info, "GATE", str(tmp_path / "gate.json"))
    (tmp_path / "gate.json").write_text(text)

    assert node_info.before(["new"]) == ["new"]


def test_what_the_agent_has_not_read(tmp_path: Path) -> None:
    """Files that are newer than the agent's last start or reload are named, in no folder below."""
    for name, age_s in (("old", 60), ("new.pem", 10), ("relay.yaml", 10), ("future", -3600)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    (tmp_path / "relay").mkdir()

    assert node_info.unread(time.time() - 30, str(tmp_path)) == ["new.pem"]
    assert node_info.unread(0, str(tmp_path)) == []


def test_when_the_agent_changed() -> None:
    """A monotonic moment of systemd becomes one of the clock; without an agent it is none."""
    now_us = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    shown = f"StateChangeTimestampMonotonic={now_us - 5_000_000}\n"

    found = node_info.changed_s(Host((0, f"ActiveState=active\n{shown}", "")))
    assert found == pytest.approx(time.time() - 5, abs=1)
    assert node_info.changed_s(Host((0, f"ActiveState=failed\n{shown}", ""))) == 0


def test_removal_after_an_installation_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole venv removes itself, in use or not; of one that is not whole the folder goes."""
    monkeypatch.setattr(service, "HOME", tmp_path / "home")
    assert end_of(service.clear, Task())["changed"] is False
    begun = tmp_path / "home/0.1.0-a/bin"
    begun.mkdir(parents=True)
    (begun / "python").touch()
    assert service.own_python() == ""
    assert end_of(service.clear, Task(check_mode=True))["changed"] is True
    assert begun.exists()

    (begun.parent / "complete").touch()
    assert service.own_python() == str(begun / "python")
    (begun.parent / "complete").unlink()
    assert end_of(service.clear, Task())["steps"] == [f"remove {tmp_path}/home"]
    assert not (tmp_path / "home").exists()


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


def test_setup_is_called_as_it_is_documented() -> None:
    """Rights, interpreter and restore become options of `linkhold setup`."""
    wanted: dict[str, Any] = {
        "state": "present",
        "python": "/p",
        "venv_python": "",
        "allow": ["cover"],
    }
    assert service.command(wanted) == [
        "/p",
        "-m",
        "linkhold",
        "setup",
        "--system",
        "--allow",
        "cover",
    ]

    wanted = {"state": "absent", "restore_host": True}
    assert service.command(wanted)[4:] == ["setup", "--remove", "--restore-host"]
