"""Types lines into a terminal of a machine with two NICs, in the lab. Imported by the guest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import furnish
from support.lab import Box, kernel, scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

BIN = Path(__file__).resolve().parents[2] / ".venv/bin"
CONFIG = Path("/etc/linkhold/linkhold.yaml")


@scenario(timeout_s=100)
def types(box: Box, lines: Sequence[str], config: str) -> dict[str, Any]:
    """Type lines one after the other, as a person does who says yes; tell what became of each."""
    net = box.two_switches()
    furnish.quiet_dad()
    net.give_address("eth0")
    furnish.settle()
    _let_write_to_etc(box.tmp)
    CONFIG.parent.mkdir()
    CONFIG.write_text(config)
    _make_terminals()
    os.environ["PATH"] = f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin"
    return {line: _typed(line) for line in lines}


def _let_write_to_etc(tmp: Path) -> None:
    up, work = tmp / "up", tmp / "work"
    up.mkdir()
    work.mkdir()
    layers = f"lowerdir=/etc,upperdir={up},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "etc", "/etc"], check=True)


def _make_terminals() -> None:
    pts, ptmx = Path("/dev/pts"), Path("/dev/ptmx")
    pts.mkdir(exist_ok=True)
    kernel.mount("devpts", str(pts))
    if not ptmx.exists():
        ptmx.symlink_to("pts/ptmx")
    (pts / "ptmx").chmod(0o666)


def _typed(line: str) -> list[Any]:
    """Run a line in a terminal and answer yes; return its exit code and what it showed."""
    ours, theirs = os.openpty()
    os.write(ours, b"y\n")
    done = subprocess.run(
        ["sh", "-ec", line], stdin=theirs, capture_output=True, text=True, check=False
    )
    os.close(ours)
    os.close(theirs)
    return [done.returncode, done.stdout + done.stderr]
