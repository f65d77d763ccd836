"""Who may have changed an interface: the programs that configure it, and managers just started.

Nothing more is known after the fact: the kernel does not tell which process made a change.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.decide.keeping.values import Restart
from linkhold.model.survey import OwnerKind
from linkhold.survey.files import Reader
from linkhold.survey.owners import MANAGERS, Owners
from linkhold.survey.processes import COMM_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.survey.processes import Process

NAMES = {name[:COMM_BYTES]: name for name in MANAGERS}
START_TIME = 19
"""Place of ``starttime`` behind the name in /proc/PID/stat (proc(5): field 22)."""


def look(interfaces: Mapping[str, int]) -> tuple[dict[str, str], tuple[Restart, ...]]:
    """Return who certainly configures each of ``interfaces`` (name -> index), and restarts.

    Reads all of /proc: call it from a thread.
    """
    found = Owners(Reader(Path("/")))
    owners = {name: found.of(name, index) for name, index in interfaces.items()}
    certain = {
        name: owner.kind.value
        for name, owner in owners.items()
        if owner.kind not in {OwnerKind.NOBODY, OwnerKind.UNKNOWN}
    }
    return certain, tuple(_restarts(found.programs))


def _restarts(programs: tuple[Process, ...]) -> list[Restart]:
    since_boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    offset_ns = time.monotonic_ns() - since_boot_ns  # a suspended machine's clocks differ
    ticks_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    found = []
    for program in programs:
        if program.comm not in NAMES:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path(f"/proc/{program.pid}/stat").read_text(encoding="utf-8", errors="replace")
            ticks = int(stat.rpartition(")")[2].split()[START_TIME])
            found.append(Restart(NAMES[program.comm], ticks * ticks_ns + offset_ns))
    return found
