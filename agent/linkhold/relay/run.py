"""The relay at work: messages in, alerts out, acknowledgements back; one thread decides."""

from __future__ import annotations

import logging
import queue
import resource
import threading
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold import __version__
from linkhold.exporter import Exporter
from linkhold.model import Moment, StoreError, Unavailable
from linkhold.relay import positions
from linkhold.relay.decide.pending import Pending
from linkhold.relay.decide.picture import Picture
from linkhold.relay.feed import Delivery, Feed
from linkhold.relay.report import families
from linkhold.wire import command_topic, dumps, node_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkhold.config.relay import RelaySettings
    from linkhold.relay.decide.values import Ask, Key, Outcome, Page
    from linkhold.relay.feed import Receipt
    from linkhold.relay.sink import Sink

log = logging.getLogger("linkhold.relay")

BATCH = 200
IDLE_S = 0.25
TICK_S = 1.0
SAVE_S = 5.0
RETRY_S = (0.5, 1.0, 2.0, 5.0)
REPLAY_EXPIRY_S = 60
REFRESH_S = 600.0
"""What a broker dropped without a word is known after this at the latest."""
SURE = 5
"""Nodes that are asked whether they hear commands: one of them may be about to go."""
ASKS_A_TICK = 50
"""Requests for events a second: a fleet that comes back must not be asked all at once."""
MOST_ASKS = 20_000


def now() -> Moment:
    """Return this instant on both clocks."""
    return Moment(time.monotonic_ns(), time.time())


class Relay:
    """One running relay. :meth:`stop` may be called from a signal handler."""

    def __init__(self, settings: RelaySettings, sink: Sink) -> None:
        self._settings = settings
        self._sink = sink
        self._queue: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._folder = Path(settings.state_dir)
        began = now()
        self._picture = Picture(settings, began, positions.load(self._folder))
        self._commands_heard = threading.Event()
        feeds = (
            Feed(settings.name, one, self._queue.put, commands_heard=self._commands_heard)
            for one in settings.brokers
        )
        self._feeds = {feed.broker: feed for feed in feeds}
        self._picture.watch(self._feeds, began)
        self._pending = Pending()
        self._receipts: list[Receipt] = []
        self._asks: list[Ask] = []
        self._checks: list[tuple[str, Key]] = []
        self._failures = 0
        self._post_at = self._tick_at = self._save_at = self._repost_at = 0.0
        self._refresh_at = time.monotonic() + REFRESH_S
        self._problem = self._refusal = self._unshown = ""
        self._exporter = Exporter(settings.metrics)
        self._counters: Counter[str] = Counter()
        self._stopping = False

    def run(self, turn: Callable[[], None] = lambda: None) -> None:
        """Relay until :meth:`stop`; what is not acknowledged then comes again.

        ``turn`` is called at each turn of the loop, which shows that it does not hang.
        """
        log.info("relay %s: %d brokers", self._settings.name, len(self._feeds))
        for feed in self._feeds.values():
            feed.start()
        try:
            while not self._stopping:
                turn()
                self._step()
        finally:
            for feed in self._feeds.values():
                feed.stop(2.0)
            self._save()
            self._sink.close()
            self._exporter.close()

    def stop(self) -> None:
        """End soon."""
        self._stopping = True

    def _step(self) -> None:
        for delivery in self._take():
            self._deliver(delivery)
        clock_s = time.monotonic()
        if clock_s >= self._tick_at:
            self._tick_at = clock_s + TICK_S
            self._do(self._picture.tick(now()))
            self._ask()
            self._check()
        if clock_s >= self._post_at:
            self._post()
        if clock_s >= self._repost_at:
            self._repost_at = clock_s + self._settings.paging.repost_s
            self._repost()
        if clock_s >= self._save_at:
            self._save_at = clock_s + SAVE_S
            self._save()
            self._show()
        if clock_s >= self._refresh_at:
            self._refresh()

    def _refresh(self) -> None:
        """Ask the brokers once more for what they keep: they may have dropped what we waited with.

        A broker tells nobody of what it could not queue.
        """
        self._refresh_at = time.monotonic() + REFRESH_S
        for feed in self._feeds.values():
            feed.refresh()

    def _take(self) -> list[Delivery]:
        """Return what has come, after a short wait when nothing has."""
        found = []
        try:
            found.append(self._queue.get(timeout=IDLE_S))
            while len(found) < BATCH:
                found.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return found

    def _deliver(self, delivery: Delivery) -> None:
        if delivery.damaged:
            self._counters["messages_damaged"] += 1
            if self._counters["messages_damaged"] == 1:
                log.warning("ignored: %s (more of that are counted, not told)", delivery.damaged)
        if delivery.heard is not None:
            try:
                self._do(self._picture.take(delivery.heard, now()))
            except Exception as error:  # noqa: BLE001 -- one message must not end the relay
                self._counters["errors"] += 1
                log.warning("%s: %s", type(error).__name__, error)
        if delivery.receipt is not None:
            self._receipts.append(delivery.receipt)

    def _do(self, outcome: Outcome) -> None:
        if outcome.words:
            log.warning("%s", outcome.words)
        moment = now()
        for page in self._pending.put(outcome.pages, moment):
            self._picture.untold(page, moment)
        self._asks += outcome.asks[: MOST_ASKS - len(self._asks)]
        self._checks += outcome.checks[: MOST_ASKS - len(self._checks)]

    def _check(self) -> None:
        """Look for nodes that may be gone, a few at a time."""
        some, self._checks = self._checks[:ASKS_A_TICK], self._checks[ASKS_A_TICK:]
        if some and not self._commands_heard.is_set():
            self._learn()
        for broker, key in some:
            node = self._picture.nodes.get(key)
            if node is not None and broker in node.claimed:
                self._feeds[broker].check(key)

    def _learn(self) -> None:
        """Send a command to a few nodes that are there for sure: do nodes hear any?"""
        there = (node for node in self._picture.nodes.values() if node.online - node.claimed)
        for node in islice(there, SURE):
            self._feeds[min(node.online - node.claimed)].check(node.key, learn=True)

    def _ask(self) -> None:
        """Send requests for events, a few at a time, by a broker that the node is connected to."""
        some, self._asks = self._asks[:ASKS_A_TICK], self._asks[ASKS_A_TICK:]
        for ask in some:
            node = self._picture.nodes.get(ask.key)
            feed = self._feeds.get(min(node.online, default="")) if node is not None else None
            if feed is None:
                continue
            topic = command_topic(node_prefix(*ask.key), "replay")
            document = {
                "request": ask.request,
                "session": ask.session,
                "from_seq": ask.first,
                "to_seq": ask.last,
            }
            feed.publish(topic, dumps(document), REPLAY_EXPIRY_S)

    def _post(self) -> None:
        """Post what waits; then, and only then, acknowledge what led to it."""
        if len(self._pending):
            pages = self._pending.waiting()
            if not self._try(pages):
                return
            self._pending.accepted(pages, now())
        for receipt in self._receipts:
            receipt.give()
        self._receipts.clear()

    def _try(self, pages: Sequence[Page], *, again: bool = False) -> bool:
        moment, ends_s = now(), self._settings.paging.ends_s
        try:
            if again:
                self._sink.repost(pages, moment, ends_s, whole=self._picture.is_whole(moment))
            else:
                self._sink.post(pages, moment, ends_s)
        except Unavailable as error:
            self._failures += 1
            wait_s = RETRY_S[min(self._failures, len(RETRY_S)) - 1]
            self._post_at = time.monotonic() + wait_s
            self._tell(f"alerts wait: {error}")
            return False
        if self._failures > 1:
            self._refresh_at = 0.0
        self._failures = 0
        self._tell("")
        if self._sink.refusal and self._sink.refusal != self._refusal:
            self._refusal = self._sink.refusal
            log.warning("an alert is refused for good: %s", self._refusal)
        return True

    def _tell(self, problem: str) -> None:
        if bool(problem) is not bool(self._problem):
            log.warning("%s", problem or "alerts are taken again")
        self._problem = problem

    def _repost(self) -> None:
        """Post everything that fires: Alertmanager forgets what it is not told again.

        What a relay cannot see the end of it keeps alive only while the sink itself holds it, so
        as not to bring back what another relay has ended. A sink that does not hold our life sign
        either has forgotten everything.
        """
        pages = self._picture.firing
        doubtful = self._picture.doubtful()
        if doubtful:
            held = self._sink.still_firing()
            if held is not None and self._picture.alive in held:
                pages = [
                    page for page in pages if page.labels in held or page.labels not in doubtful
                ]
        if pages:
            self._try(pages, again=True)
        self._counters["reposts"] += 1

    def _save(self) -> None:
        try:
            positions.save(self._folder, self._picture.known(time.time() + SAVE_S))
        except StoreError as error:
            self._counters["store_failed"] += 1
            if self._counters["store_failed"] == 1:
                log.warning("%s; a gap over the next restart would not be seen", error)

    def _show(self) -> None:
        if not self._exporter.wanted:
            return
        usage = resource.getrusage(resource.RUSAGE_SELF)
        counters = {**self._counters, **self._picture.counters, **self._sink.counters}
        self._exporter.show(
            tuple(
                families(
                    self._picture,
                    counters,
                    pending=len(self._pending),
                    cpu_s=usage.ru_utime + usage.ru_stime,
                    version=__version__,
                )
            )
        )
        if self._exporter.problem != self._unshown:
            self._unshown = self._exporter.problem
            log.warning("%s", self._unshown or "metrics are shown again")
