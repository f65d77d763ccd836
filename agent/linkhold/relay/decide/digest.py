"""The digest of a node that was cut off, or whose alerts nobody was told of at the time.

Alertmanager tells nobody of an alert that arrives when it is over, so what happened meanwhile
becomes one alert of its own, which ends by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.relay.decide.texts import clock, cut, lasted

if TYPE_CHECKING:
    from linkhold.model import Moment
    from linkhold.relay.decide.values import Happened, Report

QUIET_NS = 5 * 10**9
"""The history is complete when no event came for so long; an outbox sends them in a row."""
MOST_NS = 60 * 10**9
BEFORE_S = 120.0
"""A will comes late: keepalive, TCP's own patience and the will's delay lie before it."""
MOST_NOTES = 40
WILL_S = 10.0
"""The will's delay (legs/fleet.py)."""
SHOWN = 8
NAMES = ("NodeWasIsolated", "NodeHadAlerts")

CAUSES = (
    "network.down",
    "bond.down",
    "link.down",
    "power.mains_lost",
    "power.low",
    "path.path_dead",
)
"""Events that explain a cut, the best explanation first."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An alert of which an event told and that no state has shown yet."""

    fingerprint: str
    type: str
    subject: str
    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Unseen:
    """An alert that began and ended without anybody being told."""

    name: str
    subject: str
    from_s: float
    to_s: float
    text: str

    @property
    def line(self) -> str:
        """The alert in words."""
        until = clock(self.to_s).partition(" ")[2]
        return f"{self.name} {self.subject} {clock(self.from_s)} to {until}: {self.text}"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened while a node was cut off and may explain it."""

    type: str
    subject: str
    at_s: float
    cause: str


@dataclass(frozen=True, slots=True)
class Back:
    """A node that is back, while its history arrives. ``boot_id`` is the one before."""

    gone: Moment
    returned: Moment
    boot_id: str
    last: Moment
    notes: tuple[Note, ...] = ()
    rebooted: bool = False

    @property
    def due_ns(self) -> int:
        """When the history counts as complete."""
        return min(self.last.mono_ns + QUIET_NS, self.returned.mono_ns + MOST_NS)


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest as it is told; ``until_ns`` is when it ends by itself."""

    name: str
    summary: str
    description: str
    starts_s: float
    ends_s: float
    until_ns: int


def opened(event: Happened) -> Opened:
    """Return what an ``alert.opened`` tells."""
    data = event.data
    return Opened(
        str(data.get("fingerprint"))[:64],
        str(data.get("alert"))[:64],
        event.subject[:200],
        event.at_s,
        str(data.get("text", ""))[:300],
    )


def returned(gone: Moment, report: Report | None, now: Moment) -> Back:
    """Begin to collect what happened to a node that is back."""
    return Back(gone, now, report.boot_id if report else "", now)


def reported(back: Back, report: Report, now: Moment) -> Back:
    """Take in the state of a node that is back: another boot explains the cut."""
    if back.boot_id and report.boot_id != back.boot_id:
        return replace(back, rebooted=True, last=now)
    return back


def noted(back: Back, event: Happened, now: Moment) -> Back:
    """Take in an event of a node that is back."""
    earliest_s = back.gone.wall_s - BEFORE_S
    if event.at_s < earliest_s or event.at_s > back.returned.wall_s + 1:
        return back
    if event.type not in CAUSES or len(back.notes) >= MOST_NOTES:
        return replace(back, last=now)
    told = event.data.get("cause")
    cause = "; ".join(str(line) for line in told) if isinstance(told, (list, tuple)) else ""
    note = Note(event.type, event.subject[:100], event.at_s, cause[:300])
    return replace(back, last=now, notes=(*back.notes, note))


def isolation(back: Back, unseen: tuple[Unseen, ...], lasts_s: float, now: Moment) -> Digest:
    """Return the one digest of a cut that is over and whose history is complete."""
    from_s = min((note.at_s for note in back.notes), default=back.gone.wall_s - WILL_S)
    to_s = back.returned.wall_s
    summary = (
        f"was isolated from {clock(from_s)} to {clock(to_s)} ({lasted(to_s - from_s)}), "
        f"because {_because(back)}"
    )
    return _digest(NAMES[0], summary, unseen, back.gone.wall_s, lasts_s, now)


def unseen_alerts(unseen: tuple[Unseen, ...], lasts_s: float, now: Moment) -> Digest:
    """Return the digest of alerts that were over before anybody could be told."""
    count = len(unseen)
    what = "an alert that was" if count == 1 else f"{count} alerts that were"
    summary = f"had {what} over before it could be told"
    return _digest(NAMES[1], summary, unseen, now.wall_s, lasts_s, now)


def _digest(
    name: str,
    summary: str,
    unseen: tuple[Unseen, ...],
    starts_s: float,
    lasts_s: float,
    now: Moment,
) -> Digest:
    lines = [one.line for one in unseen[:SHOWN]]
    if len(unseen) > SHOWN:
        lines.append(f"and {len(unseen) - SHOWN} more")
    described = f"{summary}. Told at {clock(now.wall_s)}; it is over."
    if lines:
        described += " Alerts meanwhile: " + "; ".join(lines)
    until_ns = now.mono_ns + int(lasts_s * 1e9)
    return Digest(name, cut(summary), cut(described), starts_s, now.wall_s + lasts_s, until_ns)


def _because(back: Back) -> str:
    for type_ in CAUSES:
        found = [note for note in back.notes if note.type == type_]
        if found:
            causes = dict.fromkeys(note.cause or f"{note.subject}: {type_}" for note in found)
            return "; ".join(list(causes)[:3])
    if back.rebooted:
        return "it started again (another boot), which nobody had announced"
    return (
        "its agent saw no fault of its own: look at the agent, and at the network between it and "
        "the broker"
    )
