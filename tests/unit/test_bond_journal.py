"""The journal of changes when its files are damaged, and a guard that has the change in memory."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.actuators import guard, perform, undo
from linkhold.actuators.guard import Remembering
from linkhold.actuators.journal import Journal
from linkhold.actuators.remake import again
from linkhold.actuators.transaction import Transaction
from linkhold.actuators.unfinished import to_do
from linkhold.model import HostError
from support.journals import change, last

if TYPE_CHECKING:
    from pathlib import Path

BACK = {"do": "netlink", "text": "eth0 as before", "since": 0, "changes": []}


def put(folder: Path, name: str, document: object) -> None:
    """Write one file of the journal."""
    (folder / name).write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize("key", change())
def test_a_change_that_lacks_something_is_damaged(tmp_path: Path, key: str) -> None:
    """Whoever reads it counts on each: the file and what it lacks are named, never a traceback."""
    whole = change()
    del whole[key]
    put(tmp_path, "journal.json", whole)

    with pytest.raises(HostError, match=f"journal.json is damaged: it lacks {key}; .*guard"):
        Journal(tmp_path).read()
    put(tmp_path, "journal.json", change(**{key: None}))
    with pytest.raises(HostError, match="is damaged"):
        Journal(tmp_path).read()


@pytest.mark.parametrize("key", ["id", "bond", "action", "ended", "at"])
def test_how_the_last_change_ended_may_be_damaged(tmp_path: Path, key: str) -> None:
    """It tells of the past only, so it may be removed."""
    whole = last()
    del whole[key]
    put(tmp_path, "last.json", whole)

    with pytest.raises(HostError, match=rf"last.json is damaged: it lacks {key}; .*remove it"):
        Journal(tmp_path).last()


def test_a_record_from_which_nothing_can_be_made_is_said_to_be_damaged() -> None:
    """A repair says what it lacks."""
    record = {"bond": "bond0", "members": [], "options": {}, "persist": "linkhold"}

    with pytest.raises(HostError, match="damaged: it lacks remake, give_back, checks"):
        again(record)


def test_a_test_is_not_the_last_change(tmp_path: Path) -> None:
    """Status and rollback tell of what was changed for good, or undone, before it."""
    journal = Journal(tmp_path)
    journal.finish(change(id="2"), "committed", [])
    journal.finish(change(id="3", action="test"), "undone", [])
    told = journal.last()

    assert told is not None
    assert told["id"] == "2"


def test_no_empty_folder_of_drop_ins_stays_in_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes with the last file of ours; one with files of others, or in /etc, stays."""
    monkeypatch.setattr(perform, "ROOT", tmp_path)
    folders = [
        tmp_path / "run/a.network.d",
        tmp_path / "run/b.network.d",
        tmp_path / "etc/c.network.d",
    ]
    for folder in folders:
        perform.write_file(folder / "linkhold.conf", "[Network]", 0o644)
    (folders[1] / "theirs.conf").touch()
    for folder in folders:
        perform.write_file(folder / "linkhold.conf", None, 0o644)

    assert [folder.is_dir() for folder in folders] == [False, True, True]


class Guarded:
    """A change under guard; ``undone`` are the steps of its way back that were made."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.undone: list[str] = []
        monkeypatch.setattr(undo, "perform", lambda step: self.undone.append(step["text"]))
        self.journal = Remembering(folder)

    def look(self, *damages: str, **state: Any) -> bool:
        """Let the guard look once at the change, and once more after the file was damaged."""
        put(self.folder, "journal.json", change(undo=[BACK], **state))
        self.journal.read()
        for text in damages:
            (self.folder / "journal.json").write_text(text, encoding="utf-8")
        return guard._look(self.journal, "1")


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """Return a change that a guard watches."""
    return Guarded(tmp_path, monkeypatch)


@pytest.mark.parametrize("text", ['{"id": "', "[]", '{"id": "1"}', ""])
def test_a_guard_undoes_what_it_remembers(guarded: Guarded, text: str) -> None:
    """Nobody confirmed, and the file is damaged: nobody else would know the way back."""
    assert guarded.look(text, state="waiting", deadline_mono_ns=time.monotonic_ns() - 1)
    assert guarded.undone == ["eth0 as before"]
    assert (guarded.journal.last() or {})["ended"] == "undone"


def test_a_guard_writes_a_damaged_journal_anew(guarded: Guarded) -> None:
    """So that confirm and rollback find the change again."""
    assert not guarded.look("{", state="waiting")
    found = Journal(guarded.folder).read()
    assert found is not None
    assert (found["state"], found["undo"]) == ("waiting", [BACK])


def test_a_guard_leaves_what_ended_before_the_damage(guarded: Guarded) -> None:
    """A committed change is not undone because something is written where its journal was."""
    put(guarded.folder, "last.json", last())

    assert guarded.look("{", state="waiting", deadline_mono_ns=1)
    assert guarded.undone == []


def test_a_journal_that_was_never_whole_is_nobodys(tmp_path: Path) -> None:
    """A guard that knows nothing undoes nothing, and waits."""
    (tmp_path / "journal.json").write_text("{", encoding="utf-8")

    with pytest.raises(HostError, match="is damaged"):
        guard._look(Remembering(tmp_path), "1")


def test_nobody_is_sent_to_a_command_that_sends_back(tmp_path: Path) -> None:
    """A change that was left ends by rollback, and so says confirm, status and the next change."""
    journal = Journal(tmp_path)
    left = change(state="applying", boot_id="another")
    put(tmp_path, "journal.json", left)
    gone = change(state="waiting", deadline_mono_ns=time.monotonic_ns() - 60 * 10**9)

    assert "end it with: linkhold bond rollback" in to_do(left, left=journal.is_left(left))
    assert "its guard is gone" in to_do(gone, left=False)
    for state, boot in (("applying", {}), ("waiting", {"boot_id": "another"})):
        put(tmp_path, "journal.json", change(state=state, **boot))
        with journal.held(), pytest.raises(HostError, match="with: linkhold bond rollback"):
            Transaction.resumed(journal, print)
        with journal.held(), pytest.raises(HostError, match="with: linkhold bond rollback"):
            Transaction(journal, change(), print)._begin()
