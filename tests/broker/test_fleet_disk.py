"""The outbox on a file system that is really full or really read-only (a private namespace)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

COMMON = """
import subprocess, sys
from pathlib import Path
from linkhold.config.settings import OutboxSettings
from linkhold.store.keeper import Keeper
from linkhold.store.outbox_file import open_store
from support.broker import wait_until
from support.outbox import Reports, entry

folder = Path(sys.argv[1])
keeper = Keeper(folder / "state", OutboxSettings(), Reports(), fleet=True)

def record(first, last):
    for seq in range(first, last + 1):
        keeper.record([entry(seq, text="x" * 4000)], f"{seq}".encode())
        assert keeper.flush(5)

def whole(last):
    wait_until(lambda: keeper.status().status == "ok", 10, "the disk works again")
    assert keeper.stop(5)
    opened = open_store(folder / "state", OutboxSettings())
    assert not opened.problem, opened.problem
    rows = opened.outbox.pending(0, 10000)
    assert [row.entry.seq for row in rows] == list(range(1, last + 1))
    assert opened.baseline == f"{last}".encode(), opened.baseline

def fill():
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
"""

FULL = """
assert not keeper.start().problem
record(1, 20)
fill()
record(21, 400)
status = keeper.status()
assert (status.status, status.reason) == ("volatile", "database or disk is full"), status
(folder / "filler").unlink()
whole(400)
"""

FULL_AT_FIRST_START = """
fill()
found = keeper.start()
assert found.outbox is None and found.problem, found
record(1, 50)
assert keeper.status().status == "volatile"
(folder / "filler").unlink()
whole(50)
"""

FULL_AT_START = """
keeper.start()
record(1, 20)
assert keeper.stop(5)
fill()
keeper = Keeper(folder / "state", OutboxSettings(), Reports(), fleet=True)
found = keeper.start()
assert (found.baseline, found.position, found.problem) == (b"20", ("s1", 20), ""), found
record(21, 50)
assert keeper.status().status == "volatile"
(folder / "filler").unlink()
whole(50)
"""

READ_ONLY = """
subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
found = keeper.start()
assert "Read-only file system" in found.problem, found
record(1, 50)
status = keeper.status()
assert status.status == "volatile" and "Read-only" in status.reason, status
assert status.pending == 50
subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
whole(50)
"""


def _run(folder: Path, script: str) -> None:
    """Run a script in a mount namespace of its own, with a tmpfs of 8 MB on ``folder``."""
    folder.mkdir(exist_ok=True)
    mount = 'mount -t tmpfs -o size=8m tmpfs "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            mount,
            "sh",
            str(folder),
            sys.executable,
            COMMON + script,
        ],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare: unshare failed" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", [FULL, FULL_AT_FIRST_START, FULL_AT_START, READ_ONLY])
def test_events_outlive_a_disk_that_takes_nothing(tmp_path: Path, script: str) -> None:
    """They wait in memory and are all on disk, in order, with the baseline, once it works."""
    _run(tmp_path / "disk", script)
