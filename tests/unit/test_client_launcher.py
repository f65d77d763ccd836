"""The launcher above a rank, found by what /proc says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from linkhold.client import launcher, marker
from support.broker import TIED_TO_US

if TYPE_CHECKING:
    from pathlib import Path

AGENT = """\
import os, signal, subprocess, sys, time
if sys.argv[1] == "handles":
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: sys.exit(7))
env = {**os.environ, "TORCHELASTIC_RUN_ID": "run-1"}
command = [sys.executable, "-c", sys.argv[2]]
if sys.argv[3] == "shell":
    command = ["sh", "-c", '"$0" "$@"; true', *command]
print(os.getpid(), subprocess.run(command, env=env, capture_output=True, text=True).stdout)
time.sleep(5)
"""
RANK = "from linkhold.client import launcher; print(launcher.find())"


def run(*arguments: str) -> tuple[int, str]:
    """Run an agent with one rank; return the agent's pid and what the rank printed."""
    process = subprocess.Popen(
        [*TIED_TO_US, sys.executable, "-c", AGENT, *arguments],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        pid, _, found = process.stdout.readline().partition(" ")
        return int(pid), found.strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


@pytest.mark.parametrize("between", ["direct", "shell"])
def test_the_agent_is_found(between: str) -> None:
    """It is the nearest ancestor that is no rank itself, also with a shell in between."""
    pid, found = run("handles", RANK, between)

    assert found == str(pid)


def test_what_handles_no_signal_is_no_agent() -> None:
    """A shell or a notebook that would die of the signal is left alone."""
    assert run("ignores", RANK, "direct")[1] == "None"


def test_without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that torchrun did not start has no launcher to end."""
    monkeypatch.delenv(launcher.RUN_ID, raising=False)

    assert launcher.find() is None


COUNTING = """\
import signal, sys
count = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, lambda *_: count.append(1))
print("ready", flush=True)
sys.stdin.readline()
print(len(count), flush=True)
"""
ENDING = """\
import sys
from linkhold.client import launcher
print(launcher.end(int(sys.argv[1])), flush=True)
sys.stdin.readline()
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run code that waits for a line."""
    return subprocess.Popen(
        [*TIED_TO_US, sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_signalled_once() -> None:
    """Of all ranks of an agent one signals: a second signal would cut its end short."""
    agent = start(COUNTING)
    assert agent.stdout is not None
    assert agent.stdout.readline() == "ready\n"
    ranks = [start(ENDING, str(agent.pid)) for _ in range(3)]
    try:
        said = [rank.stdout.readline().strip() for rank in ranks if rank.stdout]
        count, _ = agent.communicate("\n", 20)
        for rank in ranks:
            rank.communicate("\n", 20)
    finally:
        for process in (agent, *ranks):
            process.kill()
            process.wait()

    assert (said, count.strip()) == (["None"] * 3, "1")


def test_a_launcher_that_is_gone() -> None:
    """Nothing prevents the exit: the reason is returned in words."""
    process = subprocess.Popen([*TIED_TO_US, sys.executable, "-c", "pass"])
    process.wait()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    assert "does not handle SIGTERM" in (launcher.end(process.pid) or "")
    assert {number: signal.getsignal(number) for number in before} == before


def test_the_note_for_our_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marker and note have the same content; one that cannot be written does not cost the other."""
    monkeypatch.setenv(marker.MARKER_VARIABLE, str(tmp_path / "missing" / "marker"))
    monkeypatch.setenv(marker.NOTE_VARIABLE, str(tmp_path / "note"))
    problem = marker.leave({"code": 75, "at": time.time()})

    assert "missing/marker" in (problem or "")
    assert '"code": 75' in (tmp_path / "note").read_text()


def test_a_step_that_json_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step number of numpy or torch is written as a number, and costs no marker."""
    monkeypatch.setenv(marker.MARKER_VARIABLE, str(tmp_path / "marker"))

    class Step:
        def __index__(self) -> int:
            return 12

    assert marker.leave({"step": Step(), "reason": tmp_path}) is None
    assert json.loads((tmp_path / "marker").read_text()) == {"step": 12, "reason": str(tmp_path)}
