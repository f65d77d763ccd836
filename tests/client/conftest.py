"""A real broker on a Unix socket, and an agent by hand."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.states import HandAgent
from linkhold import paths
from linkhold.client import Hold, listener, upload_tries
from linkhold.client import upload as upload_module
from support.broker import TIED_TO_US

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
    from typing import Any

MOSQUITTO = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


def until(condition: Callable[[], object], timeout_s: float = 5.0) -> bool:
    """Wait for a condition; return whether it came true in time."""
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def descriptors(pid: int) -> list[str]:
    """Return what the open descriptors of a process point to, sockets only."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(entry.readlink()))
    return [target for target in found if target.startswith("socket:")]


class Broker:
    """One mosquitto on ``<run_dir>/mqtt/broker.sock``."""

    def __init__(self, run_dir: Path) -> None:
        self.socket = run_dir / paths.BROKER_SOCKET
        self.log = run_dir / "broker.log"
        self._config = run_dir / "broker.conf"
        self._config.write_text(
            f"listener 0 {self.socket}\nallow_anonymous true\npersistence false\n"
            f"log_dest file {self.log}\nlog_type all\nuser root\n",
            encoding="utf-8",
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.socket.parent.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [*TIED_TO_US, MOSQUITTO, "-c", str(self._config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert until(self.socket.exists)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
        self.socket.unlink(missing_ok=True)

    def lines(self, text: str) -> int:
        """Count the lines of the broker's log that contain ``text``."""
        if not self.log.exists():
            return 0
        return self.log.read_text(encoding="utf-8", errors="replace").count(text)


@pytest.fixture
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a short path: Unix socket names end at 107 bytes."""
    return tmp_path_factory.mktemp("r")


@pytest.fixture
def broker(run_dir: Path) -> Iterator[Broker]:
    """A running broker."""
    if not os.access(MOSQUITTO, os.X_OK):
        pytest.skip("mosquitto is not installed")
    broker = Broker(run_dir)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def agent(run_dir: Path) -> HandAgent:
    """An agent that has not said anything yet."""
    return HandAgent(run_dir)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Every test ends with its Holds closed: their threads end by themselves."""
    before = set(threading.enumerate())  # of tests elsewhere in this process: a retry's, for one
    yield
    ours = {"linkhold", "linkhold-upload"}

    def left() -> set[str]:
        return ours & {thread.name for thread in set(threading.enumerate()) - before}

    assert until(lambda: not left(), 3), left()


@pytest.fixture
def spooling(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Holds with a spool and short pauses, closed at the end."""
    monkeypatch.setattr(upload_tries, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(upload_tries, "LONGEST_PAUSE_S", 0.1)
    monkeypatch.setattr(upload_module, "SLICE_S", 0.02)
    for name in ("WAIT_ALONE_S", "WAIT_NOBODY_S"):  # the listener ends sooner, too
        monkeypatch.setattr(listener, name, 0.05)
    made: list[Hold] = []

    def connect(**settings: Any) -> Hold:
        settings.setdefault("spool", tmp_path / "spool")
        settings.setdefault("spool_free_floor_bytes", 0)
        hold = Hold.connect(run_dir=run_dir, wait_s=2, cover=False, upload_spread_s=0, **settings)
        made.append(hold)
        return hold

    yield connect
    for hold in made:
        hold.close(0)
