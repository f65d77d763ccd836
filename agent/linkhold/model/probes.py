"""What a probe of something beyond this host found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Heard(str, Enum):
    """What came back.

    ``answers``: the thing itself answered as it should. ``refused``: something answered, and the
    way there works, but not the thing that was asked for (TCP reset, HTTP 5xx, DNS SERVFAIL).
    ``silent``: nothing within the deadline. ``unreachable``: this host or a router says that there
    is no way. ``unknown``: the probe could not run, or the answer makes no sense.
    """

    ANSWERS = "answers"
    REFUSED = "refused"
    SILENT = "silent"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """One probe: ``how`` is ``arp``, ``nd``, ``icmp``, ``tcp``, ``http``, ``dns`` or ``metadata``.

    ``target`` is what was asked, ``link`` the interface the probe was bound to (empty: the
    routing table chose). ``rtt_ms`` is None without an answer. ``detail`` says more, for a person.
    """

    how: str
    target: str
    heard: Heard
    rtt_ms: float | None = None
    detail: str = ""
    link: str = ""

    @property
    def works(self) -> bool:
        """Whether the way to the target carries traffic both ways."""
        return self.heard in (Heard.ANSWERS, Heard.REFUSED)


class CauseKind(str, Enum):
    """Why the network is no better, as events and alerts call it."""

    DEFAULT_ROUTE_LOST = "default_route_lost"
    PATH_DEAD = "path_dead"
    DNS_DEAD = "dns_dead"
    STORAGE_DEAD = "storage_dead"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the network is no better. ``subject`` is who, ``text`` a sentence for people.

    ``since_ns`` is CLOCK_MONOTONIC. ``because`` names the aim, or ``default route``, whose loss
    explains it; empty at the root. ``partial``: others of its kind still answer. ``first_hop``: it
    is a gateway of this node.
    """

    kind: CauseKind
    subject: str
    text: str
    since_ns: int
    because: str = ""
    partial: bool = False
    first_hop: bool = False
