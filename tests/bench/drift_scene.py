"""How long a sysctl of keepalive that somebody changed stays wrong under an agent that enforces."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.rig import Rig
from bench.rows import row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.rows import Row

FOLDER = Path("/proc/sys/net/ipv4")
CHECK_EVERY_S = 1
MOST_MS = 1000 * CHECK_EVERY_S + 200
GIVEN_UP_S = 10
CONFIGURATION = (
    f"mode: enforce\nkeepalive: {{profile: default, check_every: {CHECK_EVERY_S}, "
    "busy: {tcp_retries2: 20, tcp_syn_retries: 9}}\n"
)
# Each once: a value that is changed back twice within an hour is not repaired any more.
DRIFTS = {
    "tcp_keepalive_time": (600, 7200),
    "tcp_keepalive_intvl": (60, 10),
    "tcp_keepalive_probes": (20, 9),
    "tcp_retries2": (20, 15),
    "tcp_syn_retries": (9, 6),
}
"""Sysctl: the value that the agent wants, and a worse one."""


def rows() -> Iterator[Row]:
    """Change each value, at other moments of the agent's round, and wait until it is back."""
    with Rig() as rig:
        agent = rig.start_agent(more=CONFIGURATION)
        with rig.namespace.enter():
            for key, (wanted, _) in DRIFTS.items():
                _back_s(key, wanted)
            took_ms = []
            for number, (key, (wanted, other)) in enumerate(DRIFTS.items()):
                time.sleep(CHECK_EVERY_S * number / len(DRIFTS))
                (FOLDER / key).write_text(str(other))
                took_ms.append(1e3 * _back_s(key, wanted))
        agent.stop()
    what = f"drift of a sysctl repaired, check_every {CHECK_EVERY_S} s"
    yield row(f"{what}, median of {len(took_ms)}", "ms", median(took_ms))
    yield row(f"{what}, longest", "ms", max(took_ms), most=MOST_MS)


def _back_s(key: str, wanted: int) -> float:
    began_s = time.monotonic()
    while int((FOLDER / key).read_text()) != wanted:
        waited_s = time.monotonic() - began_s
        assert waited_s < GIVEN_UP_S, f"{key} is not {wanted} after {GIVEN_UP_S} s"
        time.sleep(0.002)
    return time.monotonic() - began_s
