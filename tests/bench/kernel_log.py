"""How many lines of the kernel's log are classified a second, beside ``grep -E`` of the needles.

Seconds are those of one core (CPU time), of this process and of grep: other work on the machine
takes time from both, and would only make noise.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.rig import Impossible
from bench.rows import Row, row
from linkhold.decide.kernel_log import classify, entries, explain
from linkhold.decide.kernel_log.classify import NEEDLES, SPEAKERS, forget
from linkhold.model.kernel_log import LineClass

if TYPE_CHECKING:
    from collections.abc import Callable

LINES, QUICK_LINES, REPEATS = 300_000, 60_000, 5
LEAST = 300_000
"""Lines a second on one core (issue 5)."""
EVERY = 100
"""One line in so many is a fault of a NIC."""
FAULTS = Path(__file__).resolve().parent.parent / "unit/kernel_log/faults.txt"
NOISE = (
    "usb 2-{n}: new high-speed USB device number {n} using xhci_hcd",
    'audit: type=1400 audit(16{n}.068:39): apparmor="ALLOWED" operation="open" pid={n}',
    "[UFW BLOCK] IN=eth0 OUT= MAC=02:00 SRC=192.0.2.1 DST=192.0.2.2 LEN=60 ID={n} PROTO=TCP",
    "nvme nvme0: {n}/0/0 default/read/poll queues",
    "EXT4-fs (sda{n}): mounted filesystem with ordered data mode. Quota mode: none.",
    "docker0: port 1(veth{n}) entered disabled state",
    "perf: interrupt took too long ({n} > 2500), lowering kernel.perf_event_max_sample_rate",
    "CPU: {n} PID: {n} Comm: python3 Tainted: P           OE     5.15.0-91-generic #101-Ubuntu",
    "NVRM: Xid (PCI:0000:23:00): 13, pid={n}, Graphics Exception: ESR 0x404490=0x80000001",
    "systemd[1]: Started Session {n} of user root.",
)  # fmt: skip


def run(*, quick: bool = False) -> list[Row]:
    """Measure a log in which no noise repeats, in which all repeats, and grep on the first."""
    count = QUICK_LINES if quick else LINES
    lines = _log(count)
    reference = _grep(lines)
    rows = [
        _row("one line in 100 is a fault", lines, reference),
        _row("every line is a fault, 200 kinds", _faults() * (count // len(_faults())), None),
        replace(_row("every line is another fault", _distinct(count), None), target=None, ok=None),
    ]
    rate = _rate(lambda: _explained(lines), count)
    return [
        *rows,
        row("the same of dmesg, prefixes cut", "lines/s", round(rate), reference=reference),
    ]


def _rate(work: Callable[[], int], count: int) -> float:
    """Return how many of ``count`` lines a second ``work`` takes, the median of some runs."""
    rates = []
    for _ in range(REPEATS):
        forget()
        began = time.process_time()
        found = work()
        rates.append(count / (time.process_time() - began))
        assert found, "no fault was found"
    return median(rates)


def _explained(lines: list[str]) -> int:
    text = (f"[{n}.000001] {line}\n" for n, line in enumerate(lines))
    return sum(explain(entry).cls is not LineClass.NONE for entry in entries(text))


def _row(what: str, lines: list[str], reference: float | None) -> Row:
    rate = _rate(
        lambda: sum(classify(line).cls is not LineClass.NONE for line in lines), len(lines)
    )
    ratio = rate / reference if reference else None
    return Row(
        what, "lines/s", round(rate), reference, ratio, f">= {LEAST:,}", ok=rate >= LEAST
    )  # fmt: skip


def _grep(lines: list[str]) -> float:
    """Return how many lines a second grep looks through for drivers and needles."""
    grep = shutil.which("grep")
    if grep is None:
        raise Impossible("no grep")
    pattern = "|".join(map(re.escape, (*SPEAKERS, *NEEDLES)))
    text = "\n".join(lines).encode()
    times = []
    for _ in range(REPEATS):
        began = _children_s()
        # Into a pipe: grep stops at the first match when its output is /dev/null.
        done = subprocess.run(
            [grep, "-c", "-E", pattern], input=text, capture_output=True, check=True
        )
        times.append(_children_s() - began)
        assert int(done.stdout) >= len(lines) // EVERY
    return round(len(lines) / median(times))


def _children_s() -> float:
    """Return the CPU time of all processes that have been waited for, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _log(count: int) -> list[str]:
    faults = _faults()
    return [
        faults[n // EVERY % len(faults)]
        if n % EVERY == 0
        else NOISE[n % len(NOISE)].replace("{n}", str(n))
        for n in range(count)
    ]


def _distinct(count: int) -> list[str]:
    faults = _faults()
    return [f"{faults[n % len(faults)]} {n}" for n in range(count)]


def _faults() -> list[str]:
    return [line.split("|", 2)[2] for line in FAULTS.read_text().splitlines()]
