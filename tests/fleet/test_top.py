"""``linkhold top`` in a terminal, with a thousand nodes on a real mosquitto."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.broker import MOSQUITTO, Broker
from support.running import LINKHOLD
from support.shown_fleet import ShownFleet
from support.terminal import InTerminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.terminal import Screen

NODES = [f"gpu-{number:04}" for number in range(1000)]
DOWN, DEGRADED, OFFLINE, STOPPED = NODES[700:705], NODES[300:310], NODES[500:502], NODES[10:11]
FULL = "1000 nodes: 2 offline, 5 down, 10 warning, 1 planned, 982 ok"
SOON = "1000 nodes"
"""All are known; their states may still come."""
DEFAULTS = "max_queued_messages 1000"
"""The default of mosquitto, with which it drops most of 3,000 retained messages."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with mosquitto's own limits and a thousand nodes."""
    if not Path(MOSQUITTO).exists():
        pytest.skip(f"{MOSQUITTO} is not installed; make setup")
    made = Broker(tmp_path_factory.mktemp("fleet"))
    config = made.folder / "mosquitto.conf"
    config.write_text(config.read_text().replace("max_queued_messages 100000", DEFAULTS))
    made.start()
    fleet = ShownFleet(made)
    fleet.show(NODES)
    fleet.show(DOWN, "down")
    fleet.show(DEGRADED, "degraded")
    fleet.show(OFFLINE, status="offline")
    fleet.show(STOPPED, status="offline", planned="reboot by root")
    fleet.close()
    yield made
    made.stop()


@pytest.fixture
def top(broker: Broker) -> Iterator[Callable[..., InTerminal]]:
    """Start ``linkhold top`` in a terminal; what is left is ended."""
    made: list[InTerminal] = []

    def start(*arguments: str, port: int = 0, **how: str | int) -> InTerminal:
        url = f"mqtt://127.0.0.1:{port or broker.port}"
        command = [str(LINKHOLD), "top", "--broker", url, *arguments]
        made.append(InTerminal(command, **how))  # type: ignore[arg-type]
        return made[-1]

    yield start
    for one in made:
        one.close()


def once(broker: Broker, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it with its output in a pipe."""
    url = f"mqtt://127.0.0.1:{broker.port}"
    return subprocess.run(
        [str(LINKHOLD), "top", "--broker", url, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def names(screen: Screen) -> list[str]:
    """Return the nodes on the screen, from above."""
    return [line.split()[0] for line in screen.lines if line.startswith("gpu-")]


def test_the_worst_of_a_thousand_stand_above(top: Callable[..., InTerminal]) -> None:
    """All nodes come though the broker drops; offline, down, degraded, then the others."""
    view = top(rows=30)
    view.wait_for(lambda screen: FULL in screen.text)
    shown = names(view.screen)

    assert {*OFFLINE} == {*shown[:2]}
    assert {*DOWN} == {*shown[2:7]}
    assert {*DEGRADED} == {*shown[7:17]}
    assert "eth1 lost carrier" in view.screen.text
    assert "/ filter" in view.screen.lines[-1]


def test_filter_and_details(top: Callable[..., InTerminal]) -> None:
    """Typing narrows the list, Enter shows one node in full, Escape comes back."""
    view = top()
    view.wait_for(lambda screen: FULL in screen.text)
    view.type("/down !gpu-0702")
    view.wait_for(lambda screen: names(screen) == [name for name in DOWN if name[-1] != "2"])
    view.type("\r")
    view.wait_for(lambda screen: "4 of 1000 match" in screen.text)
    view.type("\x1b[B\r")
    view.wait_for(lambda screen: "gpu-0701 (site muc): online" in screen.text)

    assert "because: eth1 lost carrier" in view.screen.text
    assert "link eth1: down" in view.screen.text

    view.type("\x1b")
    view.wait_for(lambda screen: "4 of 1000 match" in screen.text)
    view.type("q")
    assert view.end() == 0


def test_a_slow_line_gets_only_what_changed(top: Callable[..., InTerminal], broker: Broker) -> None:
    """Moving the mark writes two lines; a storm of states is drawn twice a second at most."""
    view = top(columns=100, rows=30)
    view.wait_for(lambda screen: FULL in screen.text)
    view.read(1)
    view.written = 0
    view.type("\x1b[B")
    view.wait_for(lambda _: view.written)
    view.read(0.3)

    assert view.written < 600

    fleet = ShownFleet(broker)
    try:
        view.raw, began_s = "", time.monotonic()
        while time.monotonic() - began_s < 2:
            fleet.show(NODES[700:740], "down")
            view.read(0.01)
        seconds, drawn = time.monotonic() - began_s, view.raw.count("\x1b[1;1H")
    finally:
        fleet.show(NODES[705:740])
        fleet.close()

    assert 1 <= drawn <= 2 * seconds + 2  # the line with the counts


@pytest.mark.parametrize("end", ["q", "\x03", "SIGTERM", "SIGHUP"])
def test_the_terminal_comes_back(top: Callable[..., InTerminal], end: str) -> None:
    """However it ends, the terminal is as it was, the cursor shown, and the code says how."""
    view = top()
    view.wait_for(lambda screen: SOON in screen.text)
    assert view.screen.other
    assert not view.screen.cursor_shown

    if end.startswith("SIG"):
        view.process.send_signal(getattr(signal, end))
    else:
        view.type(end)
    codes = {"q": 0, "\x03": 130, "SIGTERM": 143, "SIGHUP": 129}

    assert codes[end] == view.end()
    assert view.before == view.attributes
    assert not view.screen.other
    assert view.screen.cursor_shown
    assert "Traceback" not in view.raw


def test_the_terminal_comes_back_after_an_error(top: Callable[..., InTerminal]) -> None:
    """A bug while drawing ends with the terminal as it was."""
    broken = (
        "import linkhold.fleet_view.live as live, sys, linkhold.cli as cli\n"
        "def fail(*_): raise OSError(5, 'broken')\n"
        "live.draw = fail\n"
        "sys.exit(cli.main(['top', '--broker', 'mqtt://127.0.0.1:1']))"
    )
    view = InTerminal([str(LINKHOLD.parent / "python"), "-c", broken])
    try:
        assert view.end() == 1
        assert view.before == view.attributes
        assert view.screen.cursor_shown
        assert "linkhold: broken" in view.raw
    finally:
        view.close()


def test_it_ends_with_its_terminal(top: Callable[..., InTerminal]) -> None:
    """A connection that is cut leaves no process behind."""
    view = top()
    view.wait_for(lambda screen: SOON in screen.text)
    view.hang_up()

    assert view.process.wait(10) in {1, 129, -signal.SIGHUP}


def test_suspended_and_back(top: Callable[..., InTerminal]) -> None:
    """Ctrl-Z gives the terminal to the shell, and going on draws everything again."""
    view = top()
    view.wait_for(lambda screen: SOON in screen.text)
    view.type("\x1a")
    view.wait_for(lambda screen: not screen.other)
    stat = Path(f"/proc/{view.process.pid}/stat")
    until_s = time.monotonic() + 5
    while stat.read_text().rpartition(")")[2].split()[0] != "T" and time.monotonic() < until_s:
        view.read(0.05)
    assert view.before == view.attributes

    os.kill(view.process.pid, signal.SIGCONT)
    view.wait_for(lambda screen: screen.other and SOON in screen.text)


def test_another_size(top: Callable[..., InTerminal]) -> None:
    """A window that shrinks or grows is drawn anew in its size."""
    view = top(columns=120, rows=40)
    view.wait_for(lambda screen: SOON in screen.text)
    view.resize(40, 8)
    view.wait_for(lambda screen: "1000 nodes" in screen.text and names(screen)[:1] != [])

    assert all(len(line) < 40 for line in view.screen.lines)


def test_without_colour(top: Callable[..., InTerminal]) -> None:
    """With NO_COLOR nothing is coloured, and the words say it all."""
    view = top(NO_COLOR="1")
    view.wait_for(lambda screen: FULL in screen.text)
    view.read(0.7)

    assert not any(f"\x1b[{code}m" in view.raw for code in ("31", "32", "33", "1;31"))
    assert "offline" in view.screen.text


def test_a_lost_broker_is_shown(
    tmp_path: Path, top: Callable[..., InTerminal], broker: Broker
) -> None:
    """A broker that dies is shown as lost, its nodes as unseen, and it is found again."""
    other = Broker(tmp_path / "other").start()
    try:
        fleet = ShownFleet(other)
        fleet.show(["gpu-x"])
        view = top(port=other.port)
        view.wait_for(lambda screen: "1 node: 1 ok" in screen.text)
        fleet.close()
        other.kill()
        view.wait_for(lambda screen: "LOST" in screen.text and "unseen" in screen.text)
        other.start()
        view.wait_for(lambda screen: "connected" in screen.text)
    finally:
        other.stop()


def test_piped_it_is_one_listing(broker: Broker) -> None:
    """In a pipe there is a heading, a line for each node, the worst first, and no escape."""
    run = once(broker)
    lines = run.stdout.splitlines()

    assert (run.returncode, run.stderr) == (0, "")
    assert len(lines) == 1001
    assert {*OFFLINE} == {line.split()[0] for line in lines[1:3]}
    assert "\x1b" not in run.stdout


def test_a_dumb_terminal_gets_a_listing_too(top: Callable[..., InTerminal]) -> None:
    """A terminal without a cursor that moves is not drawn on; a filter works there."""
    view = top("--filter", "down", TERM="dumb", rows=10)
    code = view.end(30)

    assert code == 0
    assert len(view.raw.splitlines()) == 6
    assert "\x1b" not in view.raw


def test_no_broker_is_said() -> None:
    """Nobody listens: one line says so, and the exit code is 1."""
    command = [str(LINKHOLD), "top", "--once", "--broker", "mqtt://127.0.0.1:1"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert run.returncode == 1
    assert "linkhold: broker 127.0.0.1:1: Connection refused" in run.stderr
    assert "Traceback" not in run.stderr
