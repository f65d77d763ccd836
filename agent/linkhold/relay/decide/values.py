"""What the relay hears and what it tells, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from linkhold.relay.decide.texts import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.relay.decide.gaps import Tracks

Key = tuple[str, str]
"""A node: site and name."""
Labels = tuple[tuple[str, str], ...]
"""What identifies an alert in Alertmanager: sorted pairs, and none that changes while it lasts."""


@dataclass(frozen=True, slots=True)
class NodeAlert:
    """An alert as a node's state shows it; ``since_s`` is of the node's wall clock."""

    fingerprint: str
    type: str
    severity: str
    subject: str
    since_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the relay keeps of a state document.

    ``order`` sorts states of one boot, ``boot_s`` is when the boot began by the node's wall clock,
    ``dark`` are links that carry nothing, ``lost`` those of each bond, ``protection`` and
    ``training`` are texts for people. ``stopping`` tells of a shutdown that somebody ordered.
    Planned work ends at ``maintenance_until_s`` by the node's wall clock, or ``maintenance_left_s``
    after the state was made.
    """

    boot_id: str
    session: str
    order: tuple[int, int, int]
    boot_s: float
    clock_synced: bool
    power: str
    alerts: tuple[NodeAlert, ...] = ()
    dark: frozenset[str] = frozenset()
    links: frozenset[str] = frozenset()
    lost: tuple[tuple[str, tuple[str, ...]], ...] = ()
    protection: str = ""
    training: str = ""
    stopping: bool = False
    maintenance_until_s: float = 0.0
    maintenance_left_s: float = 0.0
    maintenance_id: str = ""


@dataclass(frozen=True, slots=True)
class Birth:
    """Who speaks since when; ``planned`` is why it stopped on purpose, empty while it runs."""

    session: str
    started_s: float
    previous_session: str
    previous_seq: int
    planned: str


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of a node; ``at_s`` is of the node's wall clock."""

    boot_id: str
    session: str
    seq: int
    type: str
    subject: str
    at_s: float
    data: Mapping[str, Any] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Status:
    """A node's ``online`` or ``offline``, which its will says too."""

    online: bool


@dataclass(frozen=True, slots=True)
class Cleared:
    """Somebody emptied the node's status topic: the node is gone for good."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of one node, by one broker."""

    broker: str
    key: Key
    retained: bool
    body: Report | Birth | Happened | Status | Cleared


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """The relay's own connection to a broker began, or ended for this reason."""

    broker: str
    up: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """An alert to post; ``ends_s`` is None while it lasts, else when it ended (wall clock)."""

    labels: Labels
    annotations: Labels
    starts_s: float
    ends_s: float | None = None

    @property
    def name(self) -> str:
        """The alert's name."""
        return dict(self.labels)["alertname"]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a node for events once more."""

    key: Key
    request: str
    session: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be done: alerts to post, new or ended, events to ask for, ``words`` to log.

    ``checks`` are brokers and nodes that may no longer be connected to them, though the broker
    still has their word for it.
    """

    pages: tuple[Page, ...] = ()
    asks: tuple[Ask, ...] = ()
    checks: tuple[tuple[str, Key], ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What a relay knew: how far each node's events came, and since when nodes are gone.

    Until ``dealt_until_s`` it may have dealt with events beyond. Times are of the wall clock.
    """

    tracks: Mapping[Key, Tracks] = field(default_factory=dict)
    gone: Mapping[Key, float] = field(default_factory=dict)
    dealt_until_s: float = 0.0


def page(
    name: str, severity: str, starts_s: float, labels: Mapping[str, str], texts: Mapping[str, str]
) -> Page:
    """Return a page; empty labels and texts are left out, as Alertmanager does.

    This is the one door for words of other machines: nothing in them acts where it is shown.
    """
    every = {"alertname": name, "severity": severity, **labels}
    return Page(_words(every), _words(texts), starts_s)


def _words(values: Mapping[str, str]) -> Labels:
    return tuple(sorted((key, printable(value)) for key, value in values.items() if value))
