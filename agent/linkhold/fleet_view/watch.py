"""The picture of a fleet, kept up to date by a line to each of its brokers."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import TYPE_CHECKING

from linkhold.fleet_view.brokers import place_of
from linkhold.fleet_view.inbox import Inbox, Listening
from linkhold.fleet_view.line import BrokerNews, Line
from linkhold.fleet_view.picture import Fleet
from linkhold.fleet_view.rows import Row, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from linkhold.config.brokers import BrokerSettings
    from linkhold.fleet_view.line import Work


class Watch:
    """The picture of a fleet, kept by a line to each broker; a context manager.

    ``work`` makes what a line does for the broker of that name; ``what`` is a word for its client
    id.
    """

    def __init__(
        self,
        brokers: Iterable[BrokerSettings],
        work: Callable[[str, Inbox], Work] = Listening,
        what: str = "top",
    ) -> None:
        self.fleet = Fleet()
        self._rows = Rows()
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._inbox = Inbox(self._write)
        self.brokers: dict[str, BrokerNews | None] = {}
        self.complete: frozenset[str] = frozenset()
        self._lines = []
        for broker in brokers:
            line = Line(broker, work(place_of(broker), self._inbox), self._inbox.tell, what)
            self.brokers[line.place] = None
            self._lines.append(line)

    def __enter__(self) -> Self:
        for line in self._lines:
            line.start()
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            line.stop()
        self._read.close()
        self._write.close()

    def fileno(self) -> int:
        """Return what becomes readable when something came."""
        return self._read.fileno()

    def take(self) -> bool:
        """Take in what came; tell whether anything did."""
        with contextlib.suppress(OSError):
            while self._read.recv(4096):
                pass
        taken = self._inbox.take()
        for broker in taken.lost:
            self.fleet.broker_lost(broker)
        self.brokers.update((news.broker, news) for news in taken.news)
        for heard in taken.heard:
            self.fleet.take(heard)
        self.complete = taken.complete
        return bool(taken.lost or taken.news or taken.heard)

    def rows(self, now_s: float) -> list[Row]:
        """Return a row for each node, in no order; ``now_s`` is our wall clock."""
        return self._rows.of(self.fleet, now_s)

    @property
    def left_out(self) -> int:
        """How many messages were of nodes beyond what is kept."""
        return self.fleet.left_out + self._inbox.dropped

    @property
    def why_left_out(self) -> list[str]:
        """Why nodes are not shown, a sentence each; not all such nodes are named."""
        return self.fleet.why

    def gather(self, timeout_s: float) -> None:
        """Wait until every broker told all that it has or could not be reached, or for so long."""
        until_s = time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        while not self._has_all() and (left_s := until_s - time.monotonic()) > 0:
            poll.poll(left_s * 1000)
            self.take()

    def _has_all(self) -> bool:
        return all(
            place in self.complete or (news is not None and not news.up)
            for place, news in self.brokers.items()
        )
