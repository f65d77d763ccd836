"""What commands say of changes, records and agents, and from where the operator is logged in."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from linkhold import paths
from linkhold.actuators.journal import Journal, boot_id
from linkhold.cli import bond_plan, bond_status, restore
from linkhold.model import HostError, LinkholdError
from linkhold.survey import echo, prepare, session

if TYPE_CHECKING:
    from pathlib import Path

CHANGE = {"id": "1", "bond": "bond0", "action": "apply", "pid": 7, "phase": 1}


def shown(journal: Journal, state: str, *, boot: str = "") -> str:
    """Return what status says of a change in that state."""
    document = {
        **CHANGE,
        "state": state,
        "boot_id": boot or boot_id(),
        "deadline_mono_ns": time.monotonic_ns() + 30_400_000_000,
    }
    change = bond_status._change(journal, document)
    assert change is not None
    return bond_status._to_do(change)


def test_status_says_what_fits_the_state(tmp_path: Path) -> None:
    """Only a change that waits can be confirmed; one at work is waited for."""
    journal, worker = Journal(tmp_path / "bond"), Journal(tmp_path / "bond")
    with worker.held():
        for state in ("applying", "confirmed", "undoing"):
            assert shown(journal, state) == "process 7 is at work; wait until it has ended"
        assert shown(journal, "waiting").startswith("undone in 30 s unless confirmed; end it with")
    assert "try again with: linkhold bond rollback" in shown(journal, "failed")
    assert "nobody is at work" in shown(journal, "applying", boot="another")


def test_a_user_reads_the_nodes_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root the node's folder is read, and not one in the user's home."""
    monkeypatch.delenv(paths.STATE_DIR_VARIABLE, raising=False)
    monkeypatch.setattr(paths, "NODE_STATE_DIR", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert bond_plan.journal_to_read().where == tmp_path / "bond"


def test_a_user_who_may_not_read_the_journal_is_told_once(tmp_path: Path) -> None:
    """The one line says what to do."""

    class Closed(Journal):
        def _load(self, name: str) -> Any:
            raise HostError(f"{name}: Permission denied") from PermissionError(name)

    journal = Closed(tmp_path)
    records, problems = bond_status._records(journal)

    assert records == {}
    assert bond_status._read(journal.last, problems) is None
    assert problems == ["run as root to see changes and records"]


class Agent:
    """An agent that says in which mode it runs, or does not know the question."""

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def ask(self, _cmd: str) -> dict[str, Any]:
        """Answer as the control socket does."""
        if not self._mode:
            raise LinkholdError("unknown request")
        return {"mode": self._mode}

    def close(self) -> None:
        """Hang up."""


@pytest.mark.parametrize("mode", ["observe", "enforce", ""])
def test_restore_is_refused_beside_an_agent_that_enforces(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would make routes and bonds again at once; one that observes does nothing."""
    monkeypatch.setattr(restore, "answers_in", lambda _: True)
    monkeypatch.setattr(restore, "ControlClient", lambda _: Agent(mode))

    if mode == "observe":
        restore._refuse_beside_agent()
        return
    with pytest.raises(HostError, match="or set mode: observe"):
        restore._refuse_beside_agent()


def test_ssh_client_is_found_above_sudo(tmp_path: Path) -> None:
    """A parent of sudo, which drops SSH_CONNECTION, still has it. A loop of parents ends."""
    for pid, parent, environ in (
        (30, 20, "PATH=/bin"),
        (20, 10, "SUDO_USER=me"),
        (10, 1, "A=b\0SSH_CONNECTION=192.0.2.7 51000 10.0.0.2 22"),
        (50, 50, "SSH_CLIENT=nonsense 1 2"),
    ):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (a) b) S {parent} 1 1", encoding="utf-8")
        (folder / "environ").write_text(environ + "\0", encoding="utf-8")

    assert session.client(30, tmp_path) == "192.0.2.7"
    assert session.client(50, tmp_path) == ""
    assert session.client(99, tmp_path) == ""


def test_plan_without_a_readable_record_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged or hidden journal counts as no record for a plan."""
    monkeypatch.setenv(paths.STATE_DIR_VARIABLE, str(tmp_path))
    (tmp_path / "bond").mkdir()
    (tmp_path / "bond/committed-bond0.json").write_text("{", encoding="utf-8")

    assert bond_plan._record("bond0") == {}
    record = {"persist": "none", "members": ["eth0"], "options": {}}
    (tmp_path / "bond/committed-bond0.json").write_text(json.dumps(record), encoding="utf-8")
    assert bond_plan._record("bond0") == record


def test_link_local_addresses_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """They belong to one NIC, and another one has the network after the change."""
    monkeypatch.setattr(echo, "answers", lambda host, *, timeout_s: bool(host and timeout_s))
    monkeypatch.setattr(session, "client", lambda: "fe80::7%eth0")

    assert prepare.pings(("10.0.0.1", "fe80::1", "fd00::1")) == ("10.0.0.1", "fd00::1")
