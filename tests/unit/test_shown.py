"""How commands show things, and what they say without an agent."""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest

from linkhold import wire
from linkhold.cli import arguments, main, shown, status
from support.world import World, bonded, single

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (9.99, "10.0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (90000, "1 d 1 h"),
        (-5, "0 s"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    """A duration is shown in the two largest units that matter."""
    assert shown.duration(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200)])
def test_ages_are_read(text: str, seconds: float) -> None:
    """--since takes seconds, minutes, hours and days."""
    assert arguments.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "0s", "-1h", "1w", "1e9d", "\uff12h"])
def test_wrong_ages_say_what_is_allowed(text: str) -> None:
    """Anything else is refused with examples of what is allowed."""
    with pytest.raises(argparse.ArgumentTypeError, match="2h"):
        arguments.seconds(text)


def test_times_that_cannot_be_read_are_shown_as_they_are() -> None:
    """A time from outside that makes no sense is printed, not fatal."""
    assert shown.clock("yesterday") == "yesterday"


def test_status_shows_a_bond_that_lost_a_member(capsys: pytest.CaptureFixture[str]) -> None:
    """A tired person sees the network, the reason, who carries and that no spare is left."""
    world = World()
    world.look(bonded(first=False, active=2, losses=(1, 0)))
    world.sleep(5)
    status.show(world.document())
    text = capsys.readouterr().out

    for wanted in ("network degraded", "eth1 lost carrier", "no spare", "eth1 LOST", "WARNING"):
        assert wanted in text


def test_status_without_an_agent_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No agent and no file: one line on stderr, exit code 1."""
    assert main(["status", "--run-dir", str(tmp_path)]) == 1
    captured = capsys.readouterr()

    assert captured.out == ""
    assert captured.err.startswith("linkhold: no agent answers on")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("age_s", "boot", "said"),
    [(3600, None, "1 h old"), (1, None, "1.0 s old"), (1, "other", "before the last boot")],
)
def test_status_says_how_old_a_state_without_agent_is(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    age_s: float,
    boot: str | None,
    said: str,
) -> None:
    """What a dead agent left is shown, with its age and the exit code of no agent."""
    world = World(boot_id=boot or shown.OWN_BOOT.read_text().strip())
    world.now_ns = time.monotonic_ns() - int(age_s * 1e9)
    world.look(single())
    (tmp_path / "state.json").write_bytes(wire.dumps(world.document()))

    assert main(["status", "--json", "--run-dir", str(tmp_path)]) == 1
    captured = capsys.readouterr()

    assert said in captured.err
    assert json.loads(captured.out)["node"] == "node1"


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\x00", b"[" * 10000])
def test_damaged_state_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """A state file that cannot be read is explained, never a traceback."""
    (tmp_path / "state.json").write_bytes(content)

    assert main(["status", "--run-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_events_without_agent_and_outbox(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No agent and no outbox: said in two lines, exit code 1."""
    words = ["events", "--run-dir", str(tmp_path), "--state-dir", str(tmp_path)]

    assert main(words) == 1
    assert "no outbox there" in capsys.readouterr().err


def test_an_outbox_of_another_version_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tables may be others: the version is told, and not what SQLite misses."""
    with contextlib.closing(sqlite3.connect(tmp_path / "outbox.db")) as database:
        database.execute("CREATE TABLE happened (at)")
        database.execute("PRAGMA user_version = 9")

    assert main(["events", "--run-dir", str(tmp_path), "--state-dir", str(tmp_path)]) == 1
    assert "another linkhold wrote it (version 9, " in capsys.readouterr().err
