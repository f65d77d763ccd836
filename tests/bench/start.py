"""How long an agent takes from exec to its first state and to leg A, and what imports cost."""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from typing import TYPE_CHECKING

from bench.rig import Rig
from bench.rows import Row, row

if TYPE_CHECKING:
    from collections.abc import Sequence

STARTS, QUICK_STARTS = 10, 3
IMPORTS = {
    "nothing": "",
    "linkhold.client": "import linkhold.client",
    "linkhold.client and linkhold.mqtt": "import linkhold.client, linkhold.mqtt",
    "the agent": "import linkhold.cli.agent",
}
PROBE = """
import sys, time
began = time.perf_counter()
{statement}
took_ms = (time.perf_counter() - began) * 1e3
pss = next(l.split()[1] for l in open("/proc/self/smaps_rollup") if l.startswith("Pss:"))
rss = next(l.split()[1] for l in open("/proc/self/smaps_rollup") if l.startswith("Rss:"))
print(took_ms, rss, pss, len(sys.modules))
"""


def run(*, quick: bool = False) -> list[Row]:
    """Measure."""
    starts = QUICK_STARTS if quick else STARTS
    first_ms, leg_ms = [], []
    with Rig() as rig:
        for _ in range(starts):
            agent = rig.start_agent(ready=False)
            first_ms.append(1e3 * agent.wait_for(bool, "a state"))
            leg_ms.append(
                1e3 * agent.wait_for(lambda d: d["detail"]["agent"]["leg_a"] == "up", "leg A up")
            )
            agent.stop()
            agent.state_file.unlink()
    rows = [*_times("exec to first state", first_ms), *_times("exec to leg A up", leg_ms)]
    for what, statement in IMPORTS.items():
        rows += _imports(what, statement, starts)
    return rows


def _times(what: str, values_ms: Sequence[float]) -> list[Row]:
    return [
        row(f"{what}, median of {len(values_ms)}", "ms", median(values_ms)),
        row(f"{what}, longest", "ms", max(values_ms)),
    ]


def _imports(what: str, statement: str, repeats: int) -> list[Row]:
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    found = [
        [float(word) for word in subprocess.check_output(command, text=True).split()]
        for _ in range(repeats)
    ]
    took_ms, rss_kb, pss_kb, modules = (median(column) for column in zip(*found, strict=True))
    return [
        row(f"import of {what}", "ms", took_ms),
        row(f"import of {what}: RSS", "MB", rss_kb / 1024),
        row(f"import of {what}: PSS", "MB", pss_kb / 1024),
        row(f"import of {what}: modules", "", modules),
    ]
