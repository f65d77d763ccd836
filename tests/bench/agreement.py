"""What agreement between ranks costs: 8 processes, real gloo on loopback, steps of 100 ms.

The reference is the step. A rank that comes early to an agreement waits for the others, as it would
in the next collective of training; what is lost is the time of the one that comes last.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.rig import Impossible
from bench.rows import row

if TYPE_CHECKING:
    from bench.rows import Row

RANKS = 8
STEP_S = 0.1
WARM_UP = 20
"""Steps until the number of steps between agreements has settled."""


def run(*, quick: bool) -> list[Row]:
    """Train for some seconds; raises :class:`Impossible` without torch."""
    if importlib.util.find_spec("torch") is None:
        raise Impossible("torch is not installed")
    from client.ranks import Ranks

    ranks = Ranks()
    try:
        with tempfile.TemporaryDirectory() as folder:
            steps = 60 if quick else 220
            found = ranks.run("measure", RANKS, Path(folder), steps=steps, step_s=STEP_S)
    finally:
        ranks.close()
    values = [rank["value"] for rank in found]
    assert all(values), found
    calls = [value["took"][WARM_UP:] for value in values]
    lost_ns = [min(step) for step in zip(*calls, strict=True)]
    agreeing = [took for took in lost_ns if took > 20_000]
    step_ns, every = STEP_S * 1e9, values[0]["every"]
    mean = sum(lost_ns) / len(lost_ns) / step_ns
    return [
        row(
            f"{RANKS} ranks: share of a step",
            "%",
            median(agreeing) / every / step_ns * 100,
            most=0.1,
        ),
        row("the same by the mean, with what else runs here", "%", mean * 100),
        row("steps between agreements", "", every),
        row("one agreement, the last to come", "us", median(agreeing) / 1000),
        row("the quickest of them", "us", min(agreeing) / 1000),
        row("a step between two agreements", "ns", values[0]["between_ns"], most=1000),
    ]
