"""What one connection has to send and what became of it: pure, with the time handed in."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from linkhold.decide.readings import ParkedReading, ReplayReading
from linkhold.legs.fleet_maintenance import Announcements
from linkhold.legs.fleet_replay import Requests
from linkhold.mqtt import CODE_FAILURE, CODE_NO_SUBSCRIBER
from linkhold.store.outbox import Mark, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.mqtt import Connected
    from linkhold.store.outbox import Stored

WINDOW = 32
"""Events without an answer at most; less when the broker takes less."""
RESERVED = 4
"""Places for status, birth, state and a report within the broker's receive maximum."""
HEAD_ROOM = 512
"""Bytes of an MQTT packet besides topic and payload that an event may need."""
POISON_LOSSES = 5
"""Connections that must end at the same event before it is parked as their cause."""
PACKET_TOO_LARGE = 0x95
MAX_PAYLOAD = 268_435_455
"""Of a broker that names no maximum (MQTT v5, 2.1.4)."""


class Kind(Enum):
    """What a publication in flight is."""

    PRESENCE = "presence"
    STATE = "state"
    EVENT = "event"
    REPLAY = "replay"
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class Flight:
    """A publication without an answer yet; ``stored`` is None for what is no event."""

    kind: Kind
    sent_s: float
    stored: Stored | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What follows from a broker's answer. ``unpark`` is a type that is accepted again."""

    flight: Flight
    refused: str = ""
    mark: Mark | None = None
    reading: ParkedReading | None = None
    unpark: str = ""


class Ledger:
    """What outlives connections: counters, which refusals were told, requests, the next probe."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.requests = Requests()
        self.announcements = Announcements()
        self.probe_at_s = float("-inf")
        self._told: set[tuple[str, str]] = set()
        self._head = ""
        self._head_losses = 0

    def refused(self, stored: Stored, reason: str) -> ParkedReading | None:
        """Return what to report of a refusal: the first of each type and reason."""
        self.counters["parked"] += 1
        key = (stored.entry.type, reason)
        if key in self._told:
            return None
        self._told.add(key)
        return ParkedReading(stored.entry.id, reason)

    def accepted(self, event_type: str) -> None:
        """Note that a type is accepted again: its next refusal is news."""
        self._told = {key for key in self._told if key[0] != event_type}

    def lost_at(self, event: str) -> bool:
        """Note a connection that ended with ``event`` unanswered; True when it is the cause."""
        self._head_losses = self._head_losses + 1 if event == self._head else 1
        self._head = event
        return self._head_losses >= POISON_LOSSES


class Pump:
    """Events of one connection: a buffer in order, and those in flight."""

    def __init__(self, ledger: Ledger, accepted: Connected) -> None:
        self.window = max(1, min(WINDOW, accepted.receive_maximum - RESERVED))
        self.replayed: list[str] | None = None
        self._ledger = ledger
        self._largest = accepted.maximum_packet
        self._probes: deque[Stored] = deque()
        self._buffer: deque[Stored] = deque()
        self._again: deque[Stored] = deque()
        self._missing = 0
        self._in_hand: set[str] = set()
        self._flights: dict[int, Flight] = {}
        self._answered: set[Kind] = set()

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight and nothing waits, requests apart."""
        return not (self._flights or self._buffer or self._probes)

    @property
    def waiting(self) -> bool:
        """Whether an event waits and the window has room for it."""
        events = self._probes or self._buffer or self._again
        return bool(events) and len(self._flights) < self.window

    @property
    def hungry(self) -> bool:
        """Whether more events should be fetched."""
        return len(self._buffer) < self.window

    @property
    def answered(self) -> bool:
        """Whether the broker has answered anything yet."""
        return bool(self._answered)

    def flies(self, kind: Kind) -> bool:
        """Tell whether a publication of this kind is in flight."""
        return any(flight.kind is kind for flight in self._flights.values())

    def offer(self, events: Iterable[Stored]) -> None:
        """Take events to send, but none that is in hand already."""
        for stored in events:
            if stored.entry.id not in self._in_hand:
                self._in_hand.add(stored.entry.id)
                self._buffer.append(stored)

    def offer_probes(self, events: Iterable[Stored]) -> None:
        """Take parked events to try again."""
        for stored in events:
            if stored.entry.id not in self._in_hand:
                self._in_hand.add(stored.entry.id)
                self._probes.append(stored)

    def offer_replay(self, events: Iterable[Stored], missing: int) -> None:
        """Take the events of the active request."""
        self._again.extend(events)
        self._missing = missing
        self.replayed = []

    def next(self) -> tuple[Kind, Stored]:
        """Return the next event to send; only while :attr:`waiting`."""
        if self._probes:
            return Kind.EVENT, self._probes.popleft()
        if self._buffer:
            return Kind.EVENT, self._buffer.popleft()
        return Kind.REPLAY, self._again.popleft()

    def too_large(self, size: int) -> bool:
        """Tell whether the broker would end the connection over a packet with this payload."""
        return self._largest is not None and size + HEAD_ROOM > self._largest

    @property
    def room(self) -> int:
        """The most bytes of a payload that the broker takes."""
        return MAX_PAYLOAD if self._largest is None else self._largest - HEAD_ROOM

    def sent(self, mid: int, flight: Flight) -> None:
        """Note a publication that waits for its answer."""
        self._flights[mid] = flight

    def overdue(self, before_s: float) -> bool:
        """Tell whether a publication of before that time is still unanswered."""
        oldest = next(iter(self._flights.values()), None)
        return oldest is not None and oldest.sent_s < before_s

    def acknowledged(self, mid: int, code: int, text: str) -> Answer | None:
        """Return what follows from an answer; None for an unknown ``mid``."""
        flight = self._flights.pop(mid, None)
        if flight is None:
            return None
        self._answered.add(flight.kind)
        return self.judge(flight, code, text)

    def judge(self, flight: Flight, code: int, text: str) -> Answer:
        """Return what follows from an answer, or from one that is known beforehand."""
        refused = text if code >= CODE_FAILURE else ""
        stored = flight.stored
        if stored is None:
            return Answer(flight, refused)
        if flight.kind is Kind.REPLAY:
            if self.replayed is not None and not refused:
                self.replayed.append(stored.entry.id)
            return Answer(flight, refused)
        self._in_hand.discard(stored.entry.id)
        if refused:
            mark = Mark(stored.entry.id, Status.PARKED, code)
            return Answer(flight, refused, mark, self._ledger.refused(stored, text))
        status = Status.NO_SUBSCRIBER if code == CODE_NO_SUBSCRIBER else Status.DELIVERED
        self._ledger.counters[status.value] += 1
        unpark = stored.entry.type if stored.status is Status.PARKED else ""
        if unpark:
            self._ledger.accepted(unpark)
        return Answer(flight, mark=Mark(stored.entry.id, status, code), unpark=unpark)

    def replay_done(self) -> ReplayReading | None:
        """Return the report of the active request once all of it was answered."""
        request, ids = self._ledger.requests.active, self.replayed
        if request is None or ids is None or self._again or self.flies(Kind.REPLAY):
            return None
        self.replayed = None
        first, last = (ids[0], ids[-1]) if ids else ("", "")
        return ReplayReading(request.request, len(ids), self._missing, first, last)

    def lost(self) -> Answer | None:
        """Return the parking of an event that ends each connection it is sent on, or None.

        Only a connection that answered other things and not this event counts: else the
        network is the cause.
        """
        events = (f for f in self._flights.values() if f.kind is Kind.EVENT)
        head = next(events, None)
        if head is None or head.stored is None or Kind.EVENT in self._answered:
            return None
        if not self._answered or not self._ledger.lost_at(head.stored.entry.id):
            return None
        return self.judge(head, CODE_FAILURE, "the connection ended each time it was sent")
