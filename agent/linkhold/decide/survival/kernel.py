"""What the kernel gives up: TCP connections in use and idle ones; and what a bond repairs. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from linkhold.decide.survival.values import Effect, Layer, raised
from linkhold.model.keepalive import Timers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.survival.values import BondFacts, JobFacts

RTO_MIN_MS = 200
RTO_MAX_MS = 120_000
"""TCP_RTO_MIN and TCP_RTO_MAX of include/net/tcp.h; the second is net.ipv4.tcp_rto_max_ms now."""
RETRIES_MOST = 255
RETRIES, RTO_MAX = "tcp_retries2", "tcp_rto_max_ms"
IDLE = ("tcp_keepalive_time", "tcp_keepalive_intvl", "tcp_keepalive_probes")
SYSCTLS = (RETRIES, RTO_MAX, *IDLE)

QUICK = {RTO_MAX: 2500, RETRIES: 255}
"""Advised for training nodes: on again within 2.5 s of an outage, of up to 10 minutes."""

_BUSY, _QUIET = "TCP with data in flight", "keepalive of idle TCP connections"
_BUSY_SOURCE = "tcp_model_timeout() in net/ipv4/tcp_timer.c, with an RTO of 200 ms"
_QUIET_SOURCE = "tcp_keepalive_timer() in net/ipv4/tcp_timer.c"
_QUIET_NOTE = (
    "only sockets with SO_KEEPALIVE, which those of TCPStore, Gloo and NCCL lack{}; without it the "
    "kernel never gives an idle connection up, but a middlebox forgets it"
)


def model_timeout_s(retries: int, rto_max_ms: int = RTO_MAX_MS) -> float:
    """Return after how long the kernel gives up a connection whose data is not acknowledged.

    tcp_model_timeout() of net/ipv4/tcp_timer.c: the pause between retransmissions doubles from
    TCP_RTO_MIN to the maximum. A connection with a long round trip takes longer.
    """
    doubling = max(1, rto_max_ms // RTO_MIN_MS).bit_length() - 1
    if retries <= doubling:
        return ((2 << retries) - 1) * RTO_MIN_MS / 1000
    grown_ms = ((2 << doubling) - 1) * RTO_MIN_MS
    return (grown_ms + (retries - doubling) * rto_max_ms) / 1000


def retries_for(outage_s: float, rto_max_ms: int = RTO_MAX_MS) -> int | None:
    """Return the least tcp_retries2 that survives an outage; None when not even 255 does."""
    enough = (n for n in range(RETRIES_MOST + 1) if model_timeout_s(n, rto_max_ms) >= outage_s)
    return next(enough, None)


def tcp_layers(facts: JobFacts, aim_s: float) -> Iterator[Layer]:
    """Yield the layers that sysctls of the job's network namespace decide."""
    where = f"sysctl net.ipv4.%s{facts.place}"
    if RETRIES in facts.sysctls:
        yield _busy(facts, where % RETRIES, aim_s)
    else:
        yield _unknown(facts, _BUSY, where % RETRIES, _BUSY_SOURCE)
    if all(name in facts.sysctls for name in IDLE):
        yield _idle(facts, where % "tcp_keepalive_*")
    else:
        yield _unknown(facts, _QUIET, where % "tcp_keepalive_*", _QUIET_SOURCE)


def bond_layer(bond: BondFacts) -> Layer:
    """Return within which time a bond has moved away from a member that is dead.

    MII monitor: bond_miimon_inspect(), one look later and after ``downdelay``. ARP monitor:
    bond_ab_arp_inspect() calls the active member dead ``missed_max`` + 0.5 intervals after its
    last answer, and looks once per interval (drivers/net/bonding/bond_main.c).
    """
    name = f"bond {bond.name}"
    source = "drivers/net/bonding/bond_main.c"
    how = f"linkhold bond plan {bond.name}"
    if bond.miimon_ms:
        took_ms = float(bond.miimon_ms + bond.downdelay_ms)
        value = f"miimon {bond.miimon_ms} ms, downdelay {bond.downdelay_ms} ms"
        note = "loss of carrier only; a line that is dead beyond the cable goes unseen"
    elif bond.arp_interval_ms:
        took_ms = (bond.missed_max + 1.5) * bond.arp_interval_ms
        value = f"arp_interval {bond.arp_interval_ms} ms, missed_max {bond.missed_max}"
        note = ""
    else:
        note = "it has no link monitoring: it never fails over"
        return Layer(name, None, "none", "options of the bond", how, source, Effect.REPAIRS, note)
    return Layer(
        name, took_ms / 1000, value, "options of the bond", how, source, Effect.REPAIRS, note
    )


def _busy(facts: JobFacts, where: str, aim_s: float) -> Layer:
    retries = facts.sysctls[RETRIES]
    rto_max_ms = facts.sysctls.get(RTO_MAX, RTO_MAX_MS)
    outage_s = model_timeout_s(retries, rto_max_ms)
    wanted = retries_for(raised(outage_s, aim_s), rto_max_ms)
    how = f"keepalive: {{busy: {{tcp_retries2: {wanted or RETRIES_MOST}}}}} in linkhold's config"
    if wanted is None:
        how += ", and a longer tcp_rto_max_ms"
    how += _reach(facts)
    value = f"tcp_retries2 = {retries}"
    if RTO_MAX in facts.sysctls:
        value += f", tcp_rto_max_ms = {rto_max_ms}"
    return Layer(_BUSY, outage_s, value, where, how, _BUSY_SOURCE, note=_late(facts))


def _late(facts: JobFacts) -> str:
    """Return what the pause between retransmissions costs after an outage; empty for little.

    tcp_retransmit_timer() in net/ipv4/tcp_timer.c doubles it, and nothing tells it of a link that
    is back.
    """
    rto_max_ms = facts.sysctls.get(RTO_MAX, RTO_MAX_MS)
    if rto_max_ms <= QUICK[RTO_MAX]:
        return ""
    late = (
        f"after an outage it goes on with the kernel's next try: up to {rto_max_ms / 1000:g} s "
        "later, but at most as long again as the outage was"
    )
    if RTO_MAX not in facts.sysctls:
        return f"{late}; kernels from 6.15 have net.ipv4.{RTO_MAX} to shorten that"
    busy = ", ".join(f"{key}: {value}" for key, value in QUICK.items())
    survived_s = model_timeout_s(QUICK[RETRIES], QUICK[RTO_MAX])
    return (
        f"{late}; keepalive: {{busy: {{{busy}}}}} in linkhold's config{_reach(facts)} makes that "
        f"{QUICK[RTO_MAX] / 1000:g} s, for outages of up to {survived_s:.0f} s and connections "
        "made afterwards"
    )


def _idle(facts: JobFacts, where: str) -> Layer:
    timers = Timers(*(facts.sysctls[name] for name in IDLE))
    value = f"{timers.time_s} s, then {timers.probes} probes every {timers.interval_s} s"
    how = f"linkhold keepalive plan, then linkhold keepalive apply{_reach(facts)}"
    outage_s = float(timers.least_survived_s)
    seen = ""
    if facts.connections and facts.kept_alive is not None:
        seen = f" (now {facts.kept_alive} of the job's {facts.connections} connections have it)"
        # With nothing that it acts on, keepalive ends nothing.
        outage_s = outage_s if facts.kept_alive else math.inf
    return Layer(_QUIET, outage_s, value, where, how, _QUIET_SOURCE, note=_QUIET_NOTE.format(seen))


def _reach(facts: JobFacts) -> str:
    """Return what else it takes to reach a namespace that is not the host's."""
    return ", with keepalive: {namespaces: training}" if facts.place else ""


def _unknown(facts: JobFacts, name: str, where: str, source: str) -> Layer:
    note = f"not known: {facts.sysctls_error or 'this kernel has no such value'}"
    return Layer(name, None, "unknown", where, "run as root", source, note=note)


def infiniband_s(timeout: int, retries: int) -> float:
    """Return how long a queue pair retries: 4.096 us x 2^timeout, once per retry.

    InfiniBand architecture, 9.7.6.1.3; a timeout of 0 means for ever, five bits are used. Adapters
    may wait up to four times as long.
    """
    timeout &= 31
    return 4.096e-6 * 2**timeout * retries if timeout else math.inf


def infiniband_for(outage_s: float, retries: int) -> int | None:
    """Return the least NCCL_IB_TIMEOUT that survives an outage, None when none does."""
    return next((n for n in range(1, 32) if infiniband_s(n, retries) >= outage_s), None)
