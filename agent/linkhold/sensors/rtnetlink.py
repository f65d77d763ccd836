"""The link sensor: one rtnetlink socket, read without blocking, folded into readings."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections import Counter
from typing import TYPE_CHECKING

from linkhold.decide.readings import NetworkReading
from linkhold.model import HostNetwork, Unavailable
from linkhold.rtnl import framing as netlink
from linkhold.rtnl.framing import Malformed, Message, NetlinkSocket, Overrun, messages
from linkhold.sensors.link_table import ROUTES, Table

if TYPE_CHECKING:
    from linkhold.decide.watch import Watch

OVERRUN_REASON = "the kernel dropped messages (receive buffer overrun)"

# One wake-up of the loop: a storm of messages must not keep other work waiting.
BATCH_MESSAGES = 256
BATCH_NS = 5_000_000

# A listing that was disturbed is made again; under a steady storm the last one must do.
LISTING_TRIES = 4

IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS = 29, 1 << 3
LOOPBACK_INDEX = 1  # in every network namespace (LOOPBACK_IFINDEX)

_IFINFO = struct.Struct("=BxHiII")
_LINKS_BODY = _IFINFO.pack(0, 0, 0, 0, 0) + struct.pack(
    "=HHI", 8, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS
)
_LOOPBACK_BODY = _IFINFO.pack(0, 0, LOOPBACK_INDEX, 0, 0)

LISTINGS = {
    "links": (netlink.RTM_GETLINK, _LINKS_BODY),
    "addresses": (netlink.RTM_GETADDR, bytes(8)),
    "inet": (netlink.RTM_GETROUTE, bytes([socket.AF_INET]) + bytes(11)),
    "inet6": (netlink.RTM_GETROUTE, bytes([socket.AF_INET6]) + bytes(11)),
}


class ListingFailed(Exception):
    """The kernel refused to list links, addresses or routes."""


class RtnetlinkSensor:
    """Reads the host's network by rtnetlink, in the network namespace of the calling thread.

    Events and listings share one socket, so that a change made after a part of a listing is
    also queued after it. Register :meth:`fileno` for reading, level-triggered, and call
    :meth:`read` at each wake-up. The descriptor is an epoll instance in front of the socket: it
    stays the same when the socket is replaced after an overrun. Not safe to share by threads.

    ``counters``: messages, ignored (of no use here), malformed, foreign (not from the kernel),
    overruns, resyncs, listings, repeated (listings disturbed by a change).
    """

    def __init__(
        self, watch: Watch, *, rcvbuf_bytes: int = 8 << 20, deadline_s: float = 2.0
    ) -> None:
        self.counters: Counter[str] = Counter(
            messages=0, ignored=0, malformed=0, foreign=0,
            overruns=0, resyncs=0, listings=0, repeated=0,
        )  # fmt: skip
        self._rcvbuf_bytes = rcvbuf_bytes
        self._deadline_s = deadline_s
        self._table = Table(watch)
        self._network: HostNetwork | None = None
        self._resynced = ""
        self._poll: select.epoll | None = None
        self._socket: NetlinkSocket | None = None
        self._seq = 0
        self._tries = 0
        self._disturbed = False

    def open(self) -> NetworkReading:
        """List everything and start to follow changes.

        Blocks up to ``deadline_s``. Raises Unavailable with the reason; may be called again
        then, and the reading then still says that messages were lost before.
        """
        self._load()
        return self._resync_reading()

    def fileno(self) -> int:
        """Return the descriptor to poll, the same for the life of the sensor; -1 if closed."""
        return -1 if self._poll is None else self._poll.fileno()

    def close(self) -> None:
        """Give the descriptors back; a second call does nothing."""
        self._disconnect()
        if self._poll is not None:
            self._poll.close()
            self._poll = None

    def read(self) -> NetworkReading | None:
        """Take what waits, at most 256 datagrams or 5 ms; return a reading if it matters.

        After lost messages everything is listed again, which blocks up to ``deadline_s``; that
        is always reported. Raises Unavailable when that fails: the sensor is closed then and
        must be opened again.
        """
        try:
            self._drain()
        except Overrun:
            return self._resync(OVERRUN_REASON)
        except (ListingFailed, OSError) as error:
            return self._resync(str(error))
        return self._changes()

    def remember(self, before: HostNetwork | None) -> None:
        """Look at what was looked at before, also where no default route leads there any more.

        Call it before :meth:`open`, with what a stored state of this boot has; None for nothing.
        """
        self._table.led.update(before.links if before is not None else ())

    def set_watch(self, watch: Watch) -> NetworkReading | None:
        """Look at other interfaces from now on, after the configuration changed."""
        self._table.rewatch(watch)
        return self._changes()

    def set_details(
        self, index: int, driver: str, speed_mbps: int | None, *, vf: bool = False
    ) -> NetworkReading | None:
        """Fold in what was found about a link; kept until the link is removed.

        The speed is of the moment: ask again after each change of the carrier.
        """
        if not self._table.detail(index, driver, speed_mbps, vf=vf):
            return None
        return self._changes()

    def _changes(self) -> NetworkReading | None:
        if not self._table.news:
            return None
        network = self._table.view()
        if network == self._network:
            return None
        self._network = network
        return NetworkReading(network)

    def _resync(self, reason: str) -> NetworkReading:
        self._resynced = reason
        if reason == OVERRUN_REASON:
            self.counters["overruns"] += 1
        self._load()
        return self._resync_reading()

    def _resync_reading(self) -> NetworkReading:
        reason, self._resynced = self._resynced, ""
        self.counters["resyncs"] += bool(reason)
        self._network = self._table.view()
        return NetworkReading(self._network, resynced=reason)

    def _load(self) -> None:
        """List everything into a new table, anew after each overrun, within the deadline."""
        deadline = time.monotonic() + self._deadline_s
        while True:
            try:
                self._connect()
                self._complete(deadline)
            except Overrun as error:
                self.counters["overruns"] += 1
                if time.monotonic() >= deadline:
                    self.close()
                    raise Unavailable(f"rtnetlink: {OVERRUN_REASON}, again and again") from error
            except (ListingFailed, OSError) as error:
                self.close()
                raise Unavailable(f"rtnetlink: {error}") from error
            else:
                self._table.prune()
                return

    def _connect(self) -> None:
        self._disconnect()
        if self._poll is None:
            self._poll = select.epoll()
        self._table = Table(self._table.watch, self._table.details, self._table.led)
        self._socket = NetlinkSocket(rcvbuf_bytes=self._rcvbuf_bytes)
        self._seq = self._tries = 0
        self._poll.register(self._socket.fileno(), select.EPOLLIN)

    def _disconnect(self) -> None:
        """Close the socket, which also takes it out of the epoll instance."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _complete(self, deadline: float) -> None:
        while True:
            self._drain()
            if not self._table.asked and not self._table.wanted:
                return
            left = deadline - time.monotonic()
            if left <= 0 or self._poll is None or not self._poll.poll(left):
                what = self._table.asked or "nothing"
                raise ListingFailed(f"no complete answer in {self._deadline_s:g} s ({what})")

    def _drain(self) -> None:
        """Read a bounded batch, and ask for what the table wants once nothing waits."""
        if self._socket is None:
            return
        until_ns = time.monotonic_ns() + BATCH_NS
        for _ in range(BATCH_MESSAGES):
            got = self._socket.receive()
            if got is not None:
                self._absorb(got[0], from_kernel=got[1])
            elif not self._ask():
                return
            if time.monotonic_ns() >= until_ns:
                break
        # Nothing else would wake us for it; the answer will.
        self._ask()

    def _ask(self) -> bool:
        """Request the next wanted listing; False when none is wanted or one is under way."""
        if self._socket is None or self._table.asked:
            return False
        name = self._table.begin()
        if not name:
            self._tries = 0
            return False
        if name in ROUTES:
            # A message is sent before the kernel is done with the change (__dev_notify_flags,
            # __inet_del_ifa), and routes are listed without its lock since Linux 6.9. A single
            # link is read under that lock: when this returns, the change is complete.
            self._socket.request(netlink.RTM_GETLINK, _LOOPBACK_BODY, dump=False)
        kind, body = LISTINGS[name]
        self._seq = self._socket.request(kind, body)
        self._disturbed = False
        self.counters["listings"] += 1
        return True

    def _absorb(self, data: bytes, *, from_kernel: bool) -> None:
        if not from_kernel:
            self.counters["foreign"] += 1
            return
        try:
            for message in messages(data):
                self._handle(data, message)
        except Malformed:
            self.counters["malformed"] += 1

    def _handle(self, data: bytes, message: Message) -> None:
        self.counters["messages"] += 1
        listed = message.seq == self._seq and self._is_mine(message)
        if listed and message.flags & netlink.NLM_F_DUMP_INTR:
            self._disturbed = True
        if message.kind in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            if listed and self._table.asked:
                self._end_listing(netlink.error_of(data, message))
            return
        try:
            used = self._table.fold(data, message, listed=listed)
        except Malformed:
            self.counters["malformed"] += 1
        else:
            self.counters["ignored"] += not used

    def _is_mine(self, message: Message) -> bool:
        return self._socket is not None and message.port == self._socket.port

    def _end_listing(self, error: int) -> None:
        name = self._table.asked
        if error:
            raise ListingFailed(f"the kernel does not list {name}: {os.strerror(error)}")
        self._tries += 1
        disturbed = self._disturbed or name in self._table.wanted
        again = disturbed and self._tries < LISTING_TRIES
        self.counters["repeated"] += again
        self._tries = self._tries if again else 0
        self._table.finish(again=again)
