"""From a flip of the peer to whoever wants to know, 1,000 flips, all observers in one run."""

from __future__ import annotations

import math
import random
import time
from typing import TYPE_CHECKING, NamedTuple

from bench.rig import NIC, Rig
from bench.rows import PERCENTILES, Row, percentile, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.rig import Observer

FLIPS, QUICK_FLIPS = 1000, 100
PAUSE_S = (0.010, 0.020)
SETTLE_S = 1.0

REFERENCE = "bare netlink reader"
LIMITS: dict[str, dict[str, float]] = {
    "state file": {"p50 ratio": 4, "p99": 5},
    "leg A subscriber": {"p50 ratio": 6, "p99": 10},
    "fleet subscriber": {"p99": 15},
}


class Flip(NamedTuple):
    """One flip: when, which way, and the counts that the kernel shows after it."""

    at_ns: int
    up: bool
    ups: int
    downs: int


class Found(NamedTuple):
    """Latencies in ms; flips never seen; flips seen only together with a later one."""

    ms: list[float]
    lost: int
    coalesced: int


def run(*, quick: bool = False) -> list[Row]:
    """Measure."""
    with Rig() as rig:
        broker = rig.start_fleet()
        agent = rig.start_agent()
        observers = {
            "fleet subscriber": rig.observe("fleet", broker.port),
            "leg A subscriber": rig.observe("leg_a", agent.run_dir / "mqtt" / "broker.sock"),
            "state file": rig.observe("state_file", agent.state_file),
            "ip monitor link": rig.observe("ip_monitor"),
            REFERENCE: rig.observe("bare", rig.nic),
        }
        flips = _flip(rig, QUICK_FLIPS if quick else FLIPS)
        time.sleep(SETTLE_S)
        rows = _rows(flips, observers)
        detail = agent.state()["detail"]
    states = detail["agent"]["counters"]["states"]
    return [
        *rows,
        row("flapping at the end (1: yes)", "", detail["links"][NIC]["flapping"]),
        row("states published to the fleet per flip", "", states / len(flips)),
    ]


def _flip(rig: Rig, count: int) -> list[Flip]:
    """Flip with quiet pauses of random length, so that no timer falls into step."""
    dice = random.Random(1)
    _up, ups, downs = rig.kernel_carrier()
    flips = []
    time.sleep(SETTLE_S)
    for number in range(count):
        up = bool(number % 2)
        at_ns = rig.flipper.flip(up=up)
        ups, downs = ups + up, downs + (not up)
        flips.append(Flip(at_ns, up, ups, downs))
        time.sleep(dice.uniform(*PAUSE_S))
    assert rig.kernel_carrier() == (up, ups, downs), "the kernel counted other flips"
    return flips


def _rows(flips: Sequence[Flip], observers: dict[str, Observer]) -> list[Row]:
    found = {
        name: (by_carrier if name == "ip monitor link" else by_counts)(flips, one.results())
        for name, one in observers.items()
    }
    reference = found[REFERENCE]
    rows = []
    for name in (REFERENCE, "ip monitor link", *LIMITS):
        rows += _percentiles(name, found[name], None if name == REFERENCE else reference)
    return rows


def _percentiles(name: str, found: Found, reference: Found | None) -> list[Row]:
    limits = LIMITS.get(name, {})
    rows = [
        row(
            f"{name} {title}",
            "ms",
            percentile(found.ms, share),
            reference=percentile(reference.ms, share) if reference else None,
            most=limits.get(title),
            most_ratio=limits.get(f"{title} ratio"),
        )
        for title, share in PERCENTILES.items()
    ]
    most = 1 if limits else None
    rows.append(row(f"{name} flips lost", "flips", found.lost, most=most))
    rows.append(row(f"{name} flips seen with the next", "flips", found.coalesced))
    return rows


def by_counts(flips: Sequence[Flip], seen: Sequence[tuple[int, list[int]]]) -> Found:
    """Match each flip with the first news that counts it."""
    ms, lost, coalesced, position = [], 0, 0, 0
    news = [(at_ns, what[1], what[2]) for at_ns, what in seen]
    for flip in flips:
        while position < len(news) and not _counts(news[position], flip):
            position += 1
        if position == len(news):
            lost += 1
            continue
        at_ns, ups, downs = news[position]
        ms.append((at_ns - flip.at_ns) / 1e6)
        coalesced += (ups, downs) != (flip.ups, flip.downs)
    return Found(ms, lost, coalesced)


def _counts(news: tuple[int, int, int], flip: Flip) -> bool:
    return news[1] >= flip.ups and news[2] >= flip.downs


def by_carrier(flips: Sequence[Flip], seen: Sequence[tuple[int, bool]]) -> Found:
    """Match each flip with the first news of that carrier before the next flip."""
    ms, lost, position = [], 0, 0
    for number, flip in enumerate(flips):
        end_ns = flips[number + 1].at_ns if number + 1 < len(flips) else math.inf
        while position < len(seen) and not (
            seen[position][0] >= flip.at_ns and seen[position][1] == flip.up
        ):
            if seen[position][0] >= end_ns:
                break
            position += 1
        if position == len(seen) or seen[position][0] >= end_ns:
            lost += 1
            continue
        ms.append((seen[position][0] - flip.at_ns) / 1e6)
    return Found(ms, lost, 0)
