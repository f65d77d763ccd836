"""How often faults of the network end a training job, without and with linkhold.

Two nodes of one rank each (real torchrun, DDP over gloo, real TCP) on either side of a router; see
:mod:`bench.interruptions_place`. Each run has two faults: a short one (1 to 30 s) and a long one
(30 to 180 s), both by a schedule that depends on the seed alone. The same 20 schedules are played
without linkhold (plain torchrun with three restarts) and with it: an agent on each node, its
launcher and its lines in the loop. A run died when its launcher ended, a rank was started again, or
no step came within 150 s of link-up.
"""

from __future__ import annotations

import importlib.util
import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING

from bench.interruptions_place import Kind
from bench.interruptions_run import CONFIGURATION, TORCHRUN, Fault, Outcome, Run
from bench.rig import Impossible
from bench.rows import Row, percentile, row
from support.netns import missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SEED = 20261130
RUNS, QUICK_RUNS = 20, 2
AT_ONCE = 14
SHORT_S, LONG_S = (1.0, 30.0), (30.0, 180.0)
STORE_S = 60.0
"""read_timeout of torchrun's store: what a plain run is expected to survive."""
RESUMED_S = 3.0
Z = 1.96
"""Of 95 %."""


def run(*, quick: bool = False) -> list[Row]:
    """Play all runs; raises :class:`Impossible` without torch, torchrun, root or namespaces."""
    reason = missing() or _lacking()
    if reason:
        raise Impossible(reason)
    faults = schedule(QUICK_RUNS if quick else RUNS)
    runs = [
        Run(Outcome(number, with_linkhold, one))
        for number, one in enumerate(faults)
        for with_linkhold in (False, True)
    ]
    runs.sort(key=lambda one: -one.length_s)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        played = [pool.submit(one.play) for one in runs]
    found = [one.result() for one in played if one.exception() is None]
    _write(found)
    for one in played:
        one.result()  # raises what kept a run from being one
    return [*_rows(found)]


def schedule(runs: int, seed: int = SEED) -> list[tuple[Fault, ...]]:
    """Return the faults of each run: lengths spread evenly over the logarithm, kinds by halves."""
    dice = random.Random(seed)
    shorts, longs = (_spread(dice, runs, *span) for span in (SHORT_S, LONG_S))
    kinds = [list(Kind)[number % 2] for number in range(runs)]
    dice.shuffle(shorts)
    others = dice.sample(kinds, runs)
    return [
        (Fault(other, short), Fault(kind, long))
        for other, short, kind, long in zip(others, shorts, kinds, longs, strict=True)
    ]


def _spread(dice: random.Random, count: int, least: float, most: float) -> list[float]:
    """Return one length from each of ``count`` equal parts of a logarithmic scale."""
    whole = math.log(most / least)
    return [
        round(least * math.exp(whole * (part + dice.random()) / count), 1) for part in range(count)
    ]


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return between which shares the true one lies, with 95 % confidence (Wilson's interval)."""
    share, spread = hits / of, Z * Z / of
    middle = share + spread / 2
    half = Z * math.sqrt(share * (1 - share) / of + spread / of / 4)
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def _lacking() -> str:
    if importlib.util.find_spec("torch") is None or not TORCHRUN.exists():
        return "torch is not installed"
    return ""


def _rows(found: Sequence[Outcome]) -> Iterator[Row]:
    for with_linkhold in (False, True):
        arm = "with linkhold" if with_linkhold else "without"
        runs = [one for one in found if one.with_linkhold is with_linkhold]
        yield _share(f"{arm}: runs that died", runs, none=with_linkhold)
        for name, some in _by_length(runs).items():
            if some:
                yield _share(f"{arm}: of those with {name}", some)
        yield row(f"{arm}: steps to do again, all runs", "", sum(one.steps_lost for one in runs))
        lags_s = [lag for one in runs for lag in one.lags_s]
        most = RESUMED_S if with_linkhold else None
        if lags_s:
            yield row(f"{arm}: link-up to next step, median after {len(lags_s)} faults", "s",
                      percentile(lags_s, 0.5))  # fmt: skip
            yield row(f"{arm}: link-up to next step, longest", "s", max(lags_s), most=most)


def _by_length(runs: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    return {
        f"no fault beyond {STORE_S:g} s": [one for one in runs if one.longest_s <= STORE_S],
        f"a fault beyond {STORE_S:g} s": [one for one in runs if one.longest_s > STORE_S],
    }


def _share(what: str, runs: Sequence[Outcome], *, none: bool = False) -> Row:
    died = sum(bool(one.died) for one in runs)
    low, high = wilson(died, len(runs))
    text = f"{what}: {died} of {len(runs)} (95 %: {low:.0%} to {high:.0%})"
    target, ok = ("none", died == 0) if none else (None, None)
    return Row(text, "%", round(100 * died / len(runs), 1), target=target, ok=ok)


def _write(found: Sequence[Outcome]) -> None:
    """Write what became of each run, with its schedule, beside the figures."""
    from bench.suite import OUTPUT  # which imports this module

    OUTPUT.mkdir(parents=True, exist_ok=True)
    document = {
        "seed": SEED,
        "agent": CONFIGURATION,
        "runs": [asdict(one) for one in sorted(found, key=lambda o: (o.number, o.with_linkhold))],
    }
    (OUTPUT / "interruptions-runs.json").write_text(json.dumps(document, indent=1) + "\n")
