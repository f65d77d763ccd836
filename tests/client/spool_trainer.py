"""Training processes with a spool, and what tests of spools look at."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from client.conftest import until
from support.broker import TIED_TO_US

if TYPE_CHECKING:
    from pathlib import Path

    from client.states import HandAgent
    from linkhold.client import Hold

MARKS = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
"""Of tests that kill processes in the middle of what they do."""

TRAINER = """
import json, logging, pathlib, sys, time
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
from linkhold.client import Hold
settings = json.loads(sys.argv[1])
hold = Hold.connect(run_dir=settings["run"], spool=settings["spool"], cover=False, wait_s=2,
                    upload_spread_s=0, spool_free_floor_bytes=settings.get("floor", 0))
for url, source in settings["uploads"]:
    pathlib.Path(source).write_bytes(settings.get("bytes", 1000) * source[-1:].encode())
    hold.upload_to(url, source, storage_options=settings.get("options"))
    if settings.get("remove"):
        pathlib.Path(source).unlink()
while not hold._outgoing._spool.settle(0.1):
    time.sleep(0.01)
print("copied", flush=True)
if settings.get("stay"):
    time.sleep(60)
hold.close(30)
print("closed", flush=True)
"""


class Trainer:
    """A training process that uploads what it is told to, and may be killed."""

    def __init__(self, *wrap: str, **settings: Any) -> None:
        import json

        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*TIED_TO_US, *wrap, sys.executable, "-c", TRAINER, json.dumps(settings)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def until(self, line: str) -> None:
        """Read what it says until it says ``line``."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(text.rstrip())
            if line in text:
                return
        raise AssertionError("\n".join(self.lines))

    def kill(self) -> None:
        """End it as the kernel does when memory is out."""
        self.process.kill()
        self.end()

    def end(self) -> int:
        """Wait for its end."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        self.process.stdout.close()
        return self.process.wait(60)


def held(agent: HandAgent) -> None:
    """Put uploads on hold."""
    agent.say(by_broker=False, uploads="hold", network="down", cause=("eth0 lost carrier",))


def settled(hold: Hold) -> None:
    """Wait until what was given is copied, and what others left is taken up."""
    assert hold._outgoing is not None
    spool = hold._outgoing._spool
    assert spool is not None
    assert until(lambda: spool._thread is None, 20)


def written(path: Path, content: bytes = b"x" * 1000) -> Path:
    """Write a file."""
    path.write_bytes(content)
    return path
