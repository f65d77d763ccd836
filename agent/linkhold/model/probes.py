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


def without_query(target: str) -> str:
    """Return a target as it may be told: the query of a URL may be a key or a signature."""
    place, query, _ = target.partition("?")
    return f"{place}?***" if query else target


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
    explains it; empty at the root. ``partial``: something else shows that there is a way.
    ``first_hop``: it is a gateway of this node. ``never``: it has not answered since the start, so
    that nobody knows whether it ever could.
    """

    kind: CauseKind
    subject: str
    text: str
    since_ns: int
    because: str = ""
    partial: bool = False
    first_hop: bool = False
    never: bool = False


@dataclass(frozen=True, slots=True)
class Probed:
    """One thing that is asked all day, and what is known of it.

    ``kind`` is ``gateway``, ``path``, ``dns`` or ``storage``; ``verdict`` is ``alive``, ``dead``,
    ``mute`` (asked often enough, and never heard) or ``unknown``; ``reason`` says why it is not
    alive. ``since_ns`` is when the verdict began (CLOCK_MONOTONIC). ``heard``: it has answered
    since this machine started.
    """

    name: str
    kind: str
    target: str
    link: str = ""
    verdict: str = "unknown"
    reason: str = ""
    since_ns: int = 0
    heard: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """The cloud's metadata service as it was asked last.

    ``verdict`` is ``reachable``, ``gone`` (no answer), ``unknown`` (not asked yet, it could not be
    asked, or the answer makes no sense) or ``not_asked`` (no cloud machine, or the owner's wish).
    ``vendor`` is the cloud, empty where none is known. ``since_ns`` is CLOCK_MONOTONIC. ``heard``:
    it has answered since this machine started. ``wanted``: the owner asked for it by name.
    """

    vendor: str = ""
    verdict: str = "not_asked"
    reason: str = ""
    since_ns: int = 0
    heard: bool = False
    wanted: bool = False
