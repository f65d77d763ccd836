"""All connections of an audit as counts, and as one sentence that a tired person understands."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.decide.audit.kinds import kind, stays_here
from linkhold.decide.audit.verdicts import verdict
from linkhold.model.keepalive import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.decide.audit.kinds import Facts
    from linkhold.model.keepalive import Connection

RISK = (
    "a firewall, NAT or load balancer that forgets idle ones breaks them, and the job learns it at "
    "their next use or never"
)
REMEDY = (
    "remedy: in the job Hold.connect() covers them, or here keepalive: {cover: {processes: "
    "training}} lets the agent do it; a sysctl alone reaches none of them"
)
ORDER = (Verdict.UNPROTECTED, Verdict.STALE, Verdict.BUSY, Verdict.PROTECTED)
"""The worst first; a busy one may be any."""


@dataclass(frozen=True, slots=True)
class Audited:
    """One connection with its verdict; ``loopback`` ones never leave the host."""

    connection: Connection
    verdict: Verdict
    kind: str
    loopback: bool
    pid: int = 0
    comm: str = ""
    namespace: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of connections that leave the host, by verdict and by kind; loopback apart.

    ``limit_s`` is the longest idle time that counts as protected, None where none is wanted.
    """

    subject: str
    counts: Mapping[Verdict, int] = field(default_factory=dict)
    unprotected_kinds: Mapping[str, int] = field(default_factory=dict)
    loopback: int = 0
    limit_s: int | None = None

    @property
    def total(self) -> int:
        """How many leave the host."""
        return sum(self.counts.values())


def audited(
    connection: Connection,
    limit_s: int | None,
    facts: Facts,
    *,
    pid: int = 0,
    comm: str = "",
    namespace: str = "",
) -> Audited:
    """Return the verdict on one connection of a process (0: of none that is known)."""
    return Audited(
        connection,
        verdict(connection, limit_s),
        kind(connection, facts),
        stays_here(connection),
        pid,
        comm,
        namespace,
        facts.job,
    )


def in_order(found: Iterable[Audited]) -> list[Audited]:
    """Return what needs a person first: what leaves the host, the worst verdict, by process."""
    return sorted(
        found,
        key=lambda one: (
            one.loopback,
            ORDER.index(one.verdict),
            one.pid,
            one.kind,
            one.connection.remote,
            one.connection.remote_port,
            one.connection.local_port,
        ),
    )


def summary(found: Iterable[Audited], subject: str, limit_s: int | None) -> Summary:
    """Return the counts of an audit of ``subject`` ("job X", "process 4711 (python)", ...)."""
    everything = list(found)
    away = [one for one in everything if not one.loopback]
    seen = Counter(one.verdict for one in away)
    kinds = Counter(one.kind for one in away if one.verdict is Verdict.UNPROTECTED)
    return Summary(
        subject,
        {verdict: seen[verdict] for verdict in Verdict},
        dict(kinds.most_common()),
        len(everything) - len(away),
        limit_s,
    )


def sentence(counts: Summary) -> str:
    """Return what the audit comes to, with the remedy where one is needed."""
    if not counts.total:
        apart = f" ({counts.loopback} on loopback, which need nothing)" if counts.loopback else ""
        return f"no TCP connection of {counts.subject} goes to another host{apart}"
    parts = [_unprotected(counts), _stale(counts), _busy(counts)]
    if not any(parts):
        within = (
            "" if counts.limit_s is None else f": an idle one is probed within {counts.limit_s} s"
        )
        return f"all {counts.total} connections of {counts.subject} are protected{within}"
    return "; ".join(part for part in parts if part)


def _unprotected(counts: Summary) -> str:
    number = counts.counts[Verdict.UNPROTECTED]
    if not number:
        return ""
    are = "is" if number == 1 else "are"
    most = ", ".join(f"{count} {kind}" for kind, count in counts.unprotected_kinds.items())
    return (
        f"{number} of {counts.total} connections of {counts.subject} {are} not protected; "
        f"{RISK} ({most}); {REMEDY}"
    )


def _stale(counts: Summary) -> str:
    number = counts.counts[Verdict.STALE]
    if not number:
        return ""
    are = "is" if number == 1 else "are"
    subject = "" if counts.counts[Verdict.UNPROTECTED] else f" of {counts.subject}"
    limit = "than is wanted" if counts.limit_s is None else f"than the {counts.limit_s} s wanted"
    return (
        f"{number} of {counts.total} connections{subject} {are} armed with a longer time {limit}: "
        "a new sysctl re-arms no open socket, so reconnect, or restart the job"
    )


def _busy(counts: Summary) -> str:
    number = counts.counts[Verdict.BUSY]
    if not number:
        return ""
    others = counts.counts[Verdict.UNPROTECTED] or counts.counts[Verdict.STALE]
    subject = "" if others else f" of {counts.subject}"
    return (
        f"{number} of {counts.total} connections{subject} had data in flight at every look, which "
        "hides whether keepalive is on: look again when they are idle"
    )
