"""Whatever is given to a command, it says in words what is wrong, and ends with a code it has."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs.bad_calls import FILES, Call, bare, leaves, wrong_calls
from docs.place import Host
from support.netns import Namespace, missing
from support.places import Place, as_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORKING = Path(__file__).with_name("forking.py")
CLOSED = (["stdin"], ["stdout"], ["stderr"], ["stdin", "stdout", "stderr"])
NOT_BARE = {("agent",): "it would begin", ("diagnose",): "3 s each; tests/kernel has it"}
GOES_ON = {
    "restore": "a terminal that is gone ends no change half way",
    "report": "it writes a file",
}
"""Commands whose success does not hang on what they print."""
NOT_OURS = {"closed", "🙂"}
"""A file that this user may not read, and a letter that this terminal does not have."""
ASCII = ("LC_ALL=C", "PYTHONCOERCECLOCALE=0", "PYTHONUTF8=0")
"""A terminal that shows nothing but ASCII."""
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "there are namespaces")


@pytest.fixture(scope="module")
def node() -> Iterator[tuple[Host, Path]]:
    """A host without agent, configuration and network, with the files that calls name."""
    with Place() as folder, Namespace() as ns:
        host = Host(ns, folder, "node")
        try:
            host.run(FILES)
            yield host, folder
        finally:
            host.close()


def ends(
    host: Host,
    calls: Sequence[dict[str, Any]],
    *,
    wrap: Sequence[str] = (),
    env: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return how calls end on the host; ``wrap`` becomes somebody else first."""
    line = shlex.join([*wrap, sys.executable, str(FORKING)])
    done = subprocess.run(
        host.command(line, env), input=json.dumps(calls), capture_output=True, text=True,
        check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def faults(calls: Sequence[Call], ended: Sequence[dict[str, Any]]) -> list[str]:
    """Return what is wrong with how calls ended, one a line."""
    return [
        f"{call.name}: {fault}: {one['out'][:200]!r} {one['err'][:300]!r}"
        for call, one in zip(calls, ended, strict=True)
        for fault in call.faults(**one)
    ]


def test_every_wrong_value_is_told_in_words(node: tuple[Host, Path]) -> None:
    """Every option and argument of every command with every wrong value of its kind."""
    calls = list(wrong_calls())
    ended = ends(node[0], [{"argv": call.words} for call in calls])

    assert len(calls) > 500
    assert faults(calls, ended) == []


def test_an_ordinary_user_in_ascii_is_told_in_words(node: tuple[Host, Path]) -> None:
    """Files that may not be read, commands that only root may; and no letter but ASCII's."""
    host, folder = node
    calls = [*map(bare, _ended()), *(call for call in wrong_calls() if call.value in NOT_OURS)]
    env = (*ASCII, f"LINKHOLD_RUN_DIR={host.home}/run")  # else the one in /tmp, which would stay
    ended = ends(host, [{"argv": call.words} for call in calls], wrap=as_nobody(folder), env=env)

    assert faults(calls, ended) == []
    closed = [one["err"] for call, one in zip(calls, ended, strict=True) if call.value == "closed"]
    assert sum("Permission denied" in text for text in closed) > 10


@pytest.mark.parametrize("closed", CLOSED, ids="+".join)
def test_streams_that_are_closed_are_no_surprise(
    node: tuple[Host, Path], closed: list[str]
) -> None:
    """As cron and supervisors start commands: no traceback, and a code that the command has."""
    calls = list(map(bare, _ended()))
    ended = ends(node[0], [{"argv": call.words, "close": closed} for call in calls])

    told = [fault for fault in faults(calls, ended) if ": not a word: " not in fault]
    assert told == []


def test_a_full_disk_is_told(node: tuple[Host, Path]) -> None:
    """What cannot be written is an error with a reason, never a success."""
    calls = [one for one in map(bare, _ended()) if one.command.words[0] not in GOES_ON]
    ended = ends(node[0], [{"argv": call.words, "full": True} for call in calls])
    printed = ends(node[0], [{"argv": call.words} for call in calls])

    assert faults(calls, ended) == []
    silent = [
        call.name
        for call, one, usual in zip(calls, ended, printed, strict=True)
        if usual["out"] and "No space left on device" not in one["err"]
    ]
    assert silent == []


def _ended() -> Iterator[Any]:
    return (command for command in leaves() if command.words not in NOT_BARE)
