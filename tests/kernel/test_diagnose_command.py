"""The command in the hands of a tired person: hung disks, Ctrl-C, small screens, closed pipes."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.diagnose import Plan, Sources, diagnose, kernel_log
from linkhold.model.diagnosis import State, Sure
from support.ill_network import Resolvers, no_training
from support.netns import Namespace
from support.running import ENVIRONMENT, LINKHOLD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GATEWAY = "10.0.0.1"
ROUTES = 100_000
WHOLE_S = 10.0
COVERED = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
SIZED = 'stty cols "$1" rows 24 && shift && exec "$@"'
DIAGNOSE = (str(LINKHOLD), "diagnose", "--since", "1s")


@pytest.fixture
def node(can_make_namespaces: None) -> Iterator[Namespace]:
    """A namespace with a gateway that answers; the machine's resolvers are not reached from it."""
    with Namespace() as made, Namespace() as gateway:
        made.veth("e0", "g0", other=gateway)
        made.ip("addr add 10.0.0.2/24 dev e0")
        gateway.ip(f"addr add {GATEWAY}/24 dev g0")
        made.ip(f"route add default via {GATEWAY}")
        yield made


def answered(node: Namespace, *words: str, covered: tuple[str, str] | None = None) -> Any:
    """Return the document of ``--json``; ``covered`` puts a file over another for the command."""
    command = [*DIAGNOSE, "--json", *words]
    if covered is not None:
        command = ["unshare", "--mount", "sh", "-c", COVERED, "sh", *covered, *command]
    began_s = time.monotonic()
    done = subprocess.run(
        node.command(*command), capture_output=True, text=True, timeout=30, env=ENVIRONMENT,
        check=False,
    )  # fmt: skip
    assert time.monotonic() - began_s < WHOLE_S
    assert done.stderr == ""
    return json.loads(done.stdout)


class Terminal:
    """The command on a terminal of so many columns; ``shown`` is all that it has printed."""

    def __init__(self, node: Namespace, columns: int, **environment: str) -> None:
        self.shown = ""
        words = ("sh", "-c", SIZED, "sh", str(columns), *DIAGNOSE)
        command = node.command(*words)
        self._pid, self._descriptor = pty.fork()
        if not self._pid:
            os.execvpe(command[0], command, {**ENVIRONMENT, "TERM": "xterm", **environment})

    def until(self, word: str = "") -> None:
        """Read until a word is shown, or to the end."""
        end_s = time.monotonic() + WHOLE_S
        while time.monotonic() < end_s and not (word and word in self.shown):
            if not select.select([self._descriptor], [], [], 0.1)[0]:
                continue
            try:
                self.shown += os.read(self._descriptor, 65_536).decode()
            except OSError:  # EIO: the other end is closed
                return

    def interrupt(self) -> None:
        """Type Ctrl-C."""
        os.write(self._descriptor, b"\3")

    def ended(self) -> int:
        """Return the exit code."""
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        os.close(self._descriptor)
        return code


@pytest.mark.parametrize("file", ["/etc/resolv.conf", "/etc/hosts"])
def test_a_file_that_cannot_be_read_holds_up_nothing_else(
    node: Namespace, tmp_path: Path, file: str
) -> None:
    """On a disk that hangs: the rest is seen, in time, and what hangs is named."""
    hung = tmp_path / "hung"
    os.mkfifo(hung)
    told = answered(node, "--target", "store.example.org:443", covered=(str(hung), file))
    steps = {row["step"] for row in told["evidence"]}
    why = [one["why"] for one in told["missing"] if one["step"] == "DNS"]

    assert {"links", "gateway", "targets", "counters"} <= steps
    if file == "/etc/resolv.conf":
        assert "could not be read within 1.5 s: does a disk hang?" in why[0]
    else:
        assert why == []


def test_a_table_of_routes_as_a_router_has_it_is_no_trouble(node: Namespace) -> None:
    """100,000 routes and twenty targets: the way to each is found, within the ten seconds."""
    node.batch(
        "".join(
            f"route add 11.{n >> 16}.{n >> 8 & 255}.{n & 255}/32 via {GATEWAY}\n"
            for n in range(ROUTES)
        )
    )
    targets = [word for n in range(20) for word in ("--target", f"{GATEWAY}:{9000 + n}")]
    told = answered(node, *targets)

    assert sum(row["step"] == "targets" for row in told["evidence"]) >= 20
    assert not [one for one in told["missing"] if one["step"] in {"links", "targets", "gateway"}]


def test_an_interrupt_ends_it_at_once(node: Namespace) -> None:
    """Ctrl-C in the middle of the run: 130, the terminal as it was, and no traceback."""
    terminal = Terminal(node, 80)
    terminal.until("looking at ")
    began_s = time.monotonic()
    terminal.interrupt()
    terminal.until()
    took_s = time.monotonic() - began_s

    assert terminal.ended() == 128 + signal.SIGINT
    assert took_s < 2
    assert "Traceback" not in terminal.shown
    assert terminal.shown.rfind("\x1b[?25h") > terminal.shown.rfind("\x1b[?25l")  # a cursor again


def plain(terminal: Terminal) -> str:
    """Return what stands there without the progress that was wiped, for a failure's text."""
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.shown).replace("\r", "\n").splitlines()
    return "\n".join(line for line in lines if line.strip() and "looking at" not in line)


def test_a_small_screen_shows_whole_lines(node: Namespace) -> None:
    """Below 72 columns evidence is lines, not columns of a few letters; NO_COLOR is obeyed."""
    small = Terminal(node, 40, NO_COLOR="1")
    small.until()
    wide = Terminal(node, 100, NO_COLOR="1")
    wide.until()

    assert small.ended() == wide.ended()
    assert "routes, default inet: ok, via 10.0.0.1 on e0" in small.shown, plain(small)
    assert re.search(r"routes +default inet +ok +via 10.0.0.1 on e0", wide.shown), plain(wide)
    assert "\x1b[3" not in small.shown + wide.shown


def test_nobody_reads_the_output(node: Namespace) -> None:
    """``--json | head -c 10``: 141 as from every tool, and nothing on standard error."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        node.command(*DIAGNOSE, "--json"), stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    os.close(writing)
    os.close(reading)

    assert process.communicate(timeout=30)[1] == b""
    assert process.returncode == 141


def test_a_log_that_is_too_long_is_said_to_be(
    node: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not read may hold the fault: not seen, and so not certainly healthy."""
    monkeypatch.setattr(kernel_log, "READ_S", 0.0)
    sources = Sources(Resolvers(), no_training)
    found = node.call(lambda: asyncio.run(diagnose(Plan(vendor=""), sources)))
    why = [one.why for one in found.missing if one.step == "kernel log"]

    assert why == ["too long to be read to its end, where the newest lines are"]
    assert (found.verdict.state, found.verdict.sure) == (State.HEALTHY, Sure.LIKELY)


def test_neither_tools_nor_a_home_are_needed(node: Namespace) -> None:
    """In a rescue shell: no PATH, no HOME, no locale."""
    done = subprocess.run(
        node.command("env", "-i", "PATH=/nonexistent", *DIAGNOSE, "--json"),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    steps = {row["step"] for row in json.loads(done.stdout)["evidence"]}

    assert done.stderr == ""
    assert {"links", "routes", "gateway", "kernel log", "counters", "tables"} <= steps
