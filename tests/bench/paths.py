"""What it costs to ask beyond the node all day: an agent that does, beside one that does not.

At rest: a gateway and a resolver that answer, each asked every 10 s.
"""

from __future__ import annotations

import time

from bench import idle
from bench.rig import Rig
from bench.rows import Row, row

MOST_MORE_MS = 20.0
"""CPU a minute for all path probes: a third of what a whole idle agent may take."""
MUTE = "paths: {watch: false}\n"
SETTLE_S = 8.0


def run(*, quick: bool = False) -> list[Row]:
    """Measure both agents side by side."""
    slices = idle.QUICK_SLICES if quick else idle.SLICES
    with Rig() as asking, Rig() as mute:
        agents = [asking.start_agent(), mute.start_agent(more=MUTE)]
        agents[0].wait_for(_hears, "everybody beyond answers")
        time.sleep(SETTLE_S)
        before = agents[0].state()
        with_, without = idle.watch([agent.pid for agent in agents], slices)
        time.sleep(SETTLE_S)  # the counters are in the state with the next heartbeat
        after = agents[0].state()
        assert _hears(after), "somebody beyond died"
    minutes = (after["mono_ns"] - before["mono_ns"]) / 60e9
    more_ms, more_wakeups = with_.cpu_ms - without.cpu_ms, with_.wakeups - without.wakeups
    return [
        row("agent with path probes, CPU per minute", "ms", with_.cpu_ms,
            reference=without.cpu_ms),
        row("path probes at rest (10 s), CPU per minute", "ms", max(0.0, more_ms),
            most=MOST_MORE_MS),
        row("the same, median of 10 s", "ms",
            max(0.0, with_.slice_cpu_ms - without.slice_cpu_ms)),
        row("agent with path probes, wake-ups per minute", "", with_.wakeups,
            reference=without.wakeups),
        row("path probes at rest (10 s), wake-ups per minute", "", max(0.0, more_wakeups)),
        row("questions per minute (one gateway, one resolver)", "",
            (_asked(after) - _asked(before)) / minutes),
    ]  # fmt: skip


def _hears(document: dict[str, object]) -> bool:
    detail = document["detail"]
    assert isinstance(detail, dict)
    probes = detail["probes"].values()
    return bool(probes) and all(one["verdict"] == "alive" for one in probes)


def _asked(document: dict[str, object]) -> int:
    detail = document["detail"]
    assert isinstance(detail, dict)
    return int(detail["agent"]["counters"]["path_probes"])
