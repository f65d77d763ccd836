"""What commands say of changes, records and agents, and from where the operator is logged in."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import pytest

from linkhold import paths
from linkhold.actuators.journal import Journal, boot_id
from linkhold.cli import beside_agent, bond_apply, bond_end, bond_plan, bond_status, main, restore
from linkhold.decide.bonding.steps import Plan
from linkhold.model import HostError, LinkholdError
from linkhold.survey import echo, prepare, session
from support.journals import change, last

if TYPE_CHECKING:
    from pathlib import Path


def shown(journal: Journal, state: str, *, boot: str = "") -> str:
    """Return what status says of a change in that state."""
    document = change(pid=7, state=state, boot_id=boot or boot_id())
    shown = bond_status._change(journal, document)
    assert shown is not None
    return str(shown["to_do"])


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


@pytest.mark.parametrize(
    ("record", "ended", "words"),
    [
        ({"persist": "linkhold"}, None, "was made here and is gone; make it again"),
        ({"persist": "none"}, None, "was adjusted here and is gone"),
        (None, last(action="remove"), "was taken away by linkhold at"),
        (None, last(action="remove", bond="bond1"), "make it with: linkhold bond apply bond0"),
        (None, last(action="remove", ended="undone"), "make it with: linkhold bond apply bond0"),
        (None, None, "make it with: linkhold bond apply bond0"),
    ],
)
def test_status_says_why_a_bond_is_not_there(
    record: dict[str, Any] | None, ended: dict[str, Any] | None, words: str
) -> None:
    """One with a record is never to be applied anew, which would lose what it carried."""
    told = bond_status.absence("bond0", record, ended, {"bond0"})

    assert words in told
    assert ("linkhold bond repair bond0" in told) == (record is not None)
    assert ("linkhold bond apply" in told) == (record is None)


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_plan_and_apply_say_the_same_of_a_change_that_waits(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing begins beside it, so that a plan which says `as wanted` would mislead."""
    monkeypatch.setenv(paths.STATE_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    config = tmp_path / "linkhold.yaml"
    config.write_text("bonds: {bond0: {members: [eth0, eth1]}}", encoding="utf-8")
    (tmp_path / "bond").mkdir()
    for document, words in ((change(state="waiting"), "waits for conf"), ({}, "is damaged: it")):
        text = json.dumps(document)
        (tmp_path / "bond/journal.json").write_text(text, encoding="utf-8")

        assert main(["bond", verb, "--config", str(config)]) == 1
        assert words in capsys.readouterr().out


def test_an_error_is_a_document_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json a program can always read stdout; people read stderr; the exit code stays."""
    config = tmp_path / "linkhold.yaml"
    config.write_text("bonds: {bond0: {members: [eth0, eth1]}}", encoding="utf-8")

    assert main(["bond", "plan", "bond7", "--json", "--config", str(config)]) == 1
    told = capsys.readouterr()
    assert "has no 'bond7'" in json.loads(told.out)["error"]["text"]
    assert "linkhold: " in told.err


@pytest.mark.parametrize("uid", [0, 1000])
def test_restore_tells_programs_too(
    uid: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was done, or why nothing was, as one document."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(restore, "_found", lambda _: "")

    assert main(["restore", "--json"]) == (1 if uid else 0)
    told = json.loads(capsys.readouterr().out)
    assert ("error" in told) == bool(uid)
    assert uid or told["restored"]


def test_a_failed_apply_tells_what_became_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program is told the failure beside the bonds that were made before it."""

    def fail(*_: object) -> str:
        raise HostError("eth1 did not come up")

    monkeypatch.setattr(bond_apply, "_make", fail)
    outcome = bond_apply._outcome(Plan("bond0", "apply"), Namespace(json=True))

    assert outcome == ("failed", {"error": {"text": "eth1 did not come up"}})
    with pytest.raises(HostError):
        bond_apply._outcome(Plan("bond0", "apply"), Namespace(json=False))


def test_a_rollback_without_a_change_tells_which_was_undone_and_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nobody takes an old one for the one that he means."""
    monkeypatch.setenv(paths.STATE_DIR_VARIABLE, str(tmp_path))
    (tmp_path / "bond").mkdir()
    document = last(ended="undone", reason="not confirmed in time")
    (tmp_path / "bond/last.json").write_text(json.dumps(document), encoding="utf-8")
    said: list[str] = []

    assert bond_end._rollback(Namespace(), said.append) == "undone"
    assert "the last change, apply bond0, was undone already at 19" in said[0]
    assert said[0].endswith("(not confirmed in time)")


def test_strange_addresses_are_never_to_be_flushed() -> None:
    """They may be the way by which the operator is here: first comes how to keep them."""
    with pytest.raises(HostError, match=r"linkhold restore .*, then linkhold bond apply") as told:
        bond_end._refuse_strange("bond0", {"eth0": ["10.9.9.9/24"]})

    assert "flush" not in str(told.value)


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
    monkeypatch.setattr(beside_agent, "answers_in", lambda _: True)
    monkeypatch.setattr(beside_agent, "ControlClient", lambda _: Agent(mode))

    if mode == "observe":
        beside_agent.refuse_beside_agent()
        return
    with pytest.raises(HostError, match="or set mode: observe"):
        beside_agent.refuse_beside_agent()


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
