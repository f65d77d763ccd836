"""One established connection to a broker of the fleet: presence, newest state, then events."""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from linkhold.decide.diagnosis.published import MOST_BYTES, published
from linkhold.decide.readings import LegReading
from linkhold.legs.fleet_pace import Pacer, Timing
from linkhold.legs.fleet_pump import PACKET_TOO_LARGE, Answer, Flight, Kind, Ledger, Pump
from linkhold.mqtt import CODE_FAILURE, Acknowledged, Connected, Connection, Received, Subscribed
from linkhold.store.outbox_shelf import Cursor
from linkhold.wire import (
    CONTENT_TYPE,
    SCHEMA,
    birth_document,
    birth_topic,
    command_topic,
    diagnosis_topic,
    dumps,
    event_topic,
    node_prefix,
    state_topic,
    status_topic,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.readings import Reading
    from linkhold.legs.fleet_diagnose import Report
    from linkhold.legs.fleet_feed import Feed
    from linkhold.legs.fleet_slot import Slot
    from linkhold.model import Identity
    from linkhold.mqtt import Notice
    from linkhold.store.outbox import Mark, Stored
    from linkhold.store.outbox_shelf import Batch

T = TypeVar("T")

FETCH = 64
MAX_PROBES = 32
BUSY_TICK_S = 1.0
NO_ANSWER = "no answer"
COMMANDS = ("replay", "diagnose", "maintenance")
_SCHEMA = ("schema", str(SCHEMA))


@dataclass(frozen=True, slots=True)
class Station:
    """What stays the same over all connections of a leg.

    ``wake`` ends the thread's wait; ``tick_s`` is how long it waits when nothing is in flight,
    a fraction of the keepalive. ``diagnose`` is called in the leg's thread with each message of
    ``cmd/diagnose``.
    """

    identity: Identity
    version: str
    previous: tuple[str, int] | None
    feed: Feed
    report: Callable[[Reading], None]
    timing: Timing
    ledger: Ledger
    wake: Callable[[], None]
    tick_s: float
    diagnose: Callable[[Received], None]

    @property
    def prefix(self) -> str:
        """Return the topic prefix of this node."""
        return node_prefix(self.identity.site, self.identity.node)


class Session:
    """Serves one connection; all methods belong to the leg's thread.

    ``over`` is empty while the connection is to be kept, and the reason to end it after.
    """

    def __init__(
        self,
        station: Station,
        slot: Slot,
        connection: Connection,
        accepted: Connected,
        now_s: float,
    ) -> None:
        self.over = ""
        self.complaint = ""
        self.began_s = now_s
        self._station = station
        self._slot = slot
        self._connection = connection
        self._pump = Pump(station.ledger, accepted)
        self._pacer = Pacer(station.timing.rate, now_s)
        self._mail: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._cursor = Cursor()
        self._fetching = self._dry = self._rewind = False
        self._asked_news = -1
        self._marks: list[Mark] = []
        self._state_version = 0
        self._leaving = False
        self._replaying = ""
        self._report: Report | None = None

    def begin(self, now_s: float) -> None:
        """Subscribe to commands and say that the node is here. Raises :class:`BrokerError`."""
        prefix = self._station.prefix
        topics = (command_topic(prefix, name) for name in COMMANDS)
        self._connection.subscribe(*topics, as_published=True)  # a retained one is no command
        self._presence("online", "", now_s)

    def _presence(self, status: str, planned: str, now_s: float) -> None:
        station = self._station
        birth = birth_document(
            station.identity, station.version, station.previous, self._slot.next_seq, planned
        )
        for topic, payload in (
            (birth_topic(station.prefix), dumps(birth)),
            (status_topic(station.prefix), status.encode()),
        ):
            mid = self._connection.publish(topic, payload, qos=1, retain=True)
            self._pump.sent(mid, Flight(Kind.PRESENCE, now_s))

    def handle(self, notice: Notice) -> None:
        """Take one thing that happened on the connection."""
        ledger = self._station.ledger
        if isinstance(notice, Acknowledged):
            answer = self._pump.acknowledged(notice.mid, notice.code, notice.text)
            if answer is not None and answer.flight.kind is Kind.REPORT:
                self._reported(notice)
            elif answer is not None:
                self._follow(answer)
        elif isinstance(notice, Received):
            self._command(notice)
        elif isinstance(notice, Subscribed) and max(notice.codes, default=0) >= CODE_FAILURE:
            ledger.counters["subscriptions_refused"] += 1
            self.complaint = "commands refused"

    def _command(self, message: Received) -> None:
        if message.topic == command_topic(self._station.prefix, "replay"):
            self._station.ledger.requests.received(message)
        elif message.topic == command_topic(self._station.prefix, "diagnose"):
            self._station.diagnose(message)
        elif message.topic == command_topic(self._station.prefix, "maintenance"):
            reading = self._station.ledger.announcements.received(message)
            if reading is not None:
                self._station.report(reading)
            taken = "ignored" if reading is None else "taken"
            self._station.ledger.counters[f"maintenance_{taken}"] += 1

    def _reported(self, notice: Acknowledged) -> None:
        report, self._report = self._report, None
        if report is not None:
            self._slot.reports.answered(report, notice.code, notice.text)
            self._station.ledger.counters["reports"] += 1
        if notice.code >= CODE_FAILURE:
            self._station.ledger.counters["reports_refused"] += 1
            self.complaint = f"report refused: {notice.text}"

    def _follow(self, answer: Answer) -> None:
        if answer.mark is not None:
            self._marks.append(answer.mark)
        if answer.reading is not None:
            self._station.report(answer.reading)
        if answer.unpark:
            self._flush()
            self._station.feed.unpark(answer.unpark)
            self._cursor, self._rewind, self._dry = Cursor(), self._fetching, False
        if answer.flight.stored is None and answer.refused:
            self._station.ledger.counters["states_refused"] += 1
            self.complaint = f"{answer.flight.kind.value} refused: {answer.refused}"

    def step(self, now_s: float) -> None:
        """Do what can be done now. Raises :class:`BrokerError` when the connection ended."""
        self._read_mail()
        if self._slot.stop_reason and not self._leaving:
            self._leaving, self._dry = True, False
            self._presence("offline", self._slot.stop_reason, now_s)
        self._send_state(now_s)
        self._send_report(now_s)
        self._send_events(now_s)
        self._ask(now_s)
        self._judge(now_s)

    def _read_mail(self) -> None:
        while True:
            try:
                self._mail.get_nowait()()
            except queue.Empty:
                return

    def _send_state(self, now_s: float) -> None:
        if self._slot.hurry:  # data on the way is what finds out that the peer is gone
            self._slot.hurry, self._state_version = False, -1
        if self._pump.flies(Kind.STATE):
            return
        state, version = self._slot.state_after(self._state_version)
        if state is None:
            return
        self._state_version = version
        if self._pump.too_large(len(state)):
            self._station.ledger.counters["states_refused"] += 1
            self.complaint = "state larger than the broker takes"
            return
        mid = self._connection.publish(
            state_topic(self._station.prefix),
            state,
            qos=1,
            retain=True,
            content_type=CONTENT_TYPE,
            user=(_SCHEMA,),
        )
        self._pump.sent(mid, Flight(Kind.STATE, now_s))
        self._station.ledger.counters["states"] += 1

    def _send_report(self, now_s: float) -> None:
        if self._report is not None or self._connection.wants_write:
            return
        report = self._slot.reports.next()
        if report is None:
            return
        self._report = report
        topic = diagnosis_topic(self._station.prefix, report.id)
        payload = published(report.document, min(MOST_BYTES, self._pump.room))
        if self._pump.too_large(len(payload)):
            self._slot.reports.finish(report, "the broker takes no message of that size")
            self._report = None
            return
        mid = self._connection.publish(topic, payload, qos=1, content_type="application/json")
        self._pump.sent(mid, Flight(Kind.REPORT, now_s))

    def _send_events(self, now_s: float) -> None:
        while self._pump.waiting and not self._connection.wants_write:
            if not self._pacer.take(now_s):
                return
            kind, stored = self._pump.next()
            flight = Flight(kind, now_s, stored)
            if self._pump.too_large(len(stored.entry.payload)):
                self._follow(self._pump.judge(flight, PACKET_TOO_LARGE, "Packet too large"))
                continue
            self._pump.sent(self._publish(kind, stored), flight)

    def _publish(self, kind: Kind, stored: Stored) -> int:
        entry = stored.entry
        user = [_SCHEMA, ("severity", entry.severity.value)]
        if stored.volatile:
            user.append(("volatile", "true"))
        if kind is Kind.REPLAY:
            user.append(("replay", self._replaying))
        return self._connection.publish(
            event_topic(self._station.prefix, entry.type),
            entry.payload,
            qos=1,
            content_type=CONTENT_TYPE,
            user=tuple(user),
        )

    def _ask(self, now_s: float) -> None:
        feed, ledger = self._station.feed, self._station.ledger
        if self._slot.news != self._asked_news:
            self._dry = False
        if len(self._marks) >= FETCH // 2 or self._pump.idle:
            self._flush()
        if self._pump.hungry and not self._fetching and not self._dry:
            self._flush()  # else what was answered would be fetched again
            self._asked_news = self._slot.news
            self._fetching = feed.fetch(self._cursor, FETCH, self._post(self._batch))
        if now_s >= ledger.probe_at_s:
            ledger.probe_at_s = now_s + self._station.timing.probe_s
            feed.parked(MAX_PROBES, self._post(self._pump.offer_probes))
        self._ask_replay()

    def _flush(self) -> None:
        if self._marks:
            self._station.feed.mark(self._marks)
            self._marks = []

    def _ask_replay(self) -> None:
        requests = self._station.ledger.requests
        done = self._pump.replay_done()
        if done is not None:
            self._station.report(done)
            self._station.ledger.counters["replays"] += 1
            self._replaying = ""
            requests.finish()
        if requests.active is None or self._replaying:
            return
        request = requests.begin()
        if request is not None and self._station.feed.replay(request, self._post(self._replay)):
            self._replaying = request.request

    def _post(self, take: Callable[[T], None]) -> Callable[[T], None]:
        """Return a callback for another thread that has ``take`` called in ours."""

        def reply(answer: T) -> None:
            self._mail.put(lambda: take(answer))
            self._station.wake()

        return reply

    def _batch(self, batch: Batch) -> None:
        self._fetching = False
        self._pump.offer(batch.events)
        if self._rewind:
            self._rewind = False
            return
        self._cursor = batch.cursor
        self._dry = not batch.more and self._slot.news == self._asked_news

    def _replay(self, answer: tuple[list[Stored], int]) -> None:
        self._pump.offer_replay(*answer)

    def _judge(self, now_s: float) -> None:
        drained = self._dry and self._pump.idle
        if self._leaving and (drained or now_s >= self._slot.stop_at_s):
            self.over = "stopped"
        elif self._pump.overdue(now_s - self._station.timing.ack_s):
            self.over = NO_ANSWER

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait for the broker before the next :meth:`step`, in seconds."""
        settling = now_s - self.began_s < self._station.timing.settle_s
        wait_s = BUSY_TICK_S if settling or not self._pump.idle else self._station.tick_s
        if self._pump.waiting and not self._connection.wants_write:
            wait_s = min(wait_s, self._pacer.wait_s())
        return max(0.0, min(wait_s, self._slot.stop_at_s - now_s))

    def end(self) -> None:
        """Note that the connection is over, for whatever reason."""
        answer = self._pump.lost()
        if answer is not None:
            self._follow(answer)
        self._flush()

    def proven(self, after_s: float, now_s: float) -> bool:
        """Tell whether the broker answers, and the connection held for ``after_s``."""
        return self._pump.answered and now_s - self.began_s >= after_s

    def reading(self, place: str) -> LegReading:
        """Return the health of the leg while this connection lasts."""
        return LegReading("b", "up", f"{place}; {self.complaint}" if self.complaint else place)
