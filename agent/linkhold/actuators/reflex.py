"""Makes another member of a bond the active one, in a thread: RTNL may be held by others.

Read back by the events that the kernel sends for it, which the link sensor reads anyway. What was
before needs no remembering: which member carries is state, not configuration, and the bond's own
monitor goes on from there.
"""

from __future__ import annotations

import queue
import struct
import threading
from typing import TYPE_CHECKING

from linkhold.model import HostError
from linkhold.rtnl import attributes as nla
from linkhold.rtnl.exchange import Exchange, Request
from linkhold.rtnl.framing import RTM_NEWLINK

if TYPE_CHECKING:
    from collections.abc import Callable

IFLA_LINKINFO, IFLA_INFO_KIND, IFLA_INFO_DATA = 18, 1, 2
IFLA_BOND_ACTIVE_SLAVE = 2
MOST_WAITING = 16
_IFINFO = struct.Struct("=BxHiII")


def request(bond_index: int, member_index: int) -> Request:
    """Return the message that makes a member the active one (linux/if_link.h)."""
    options = nla.nest(IFLA_INFO_DATA, nla.u32(IFLA_BOND_ACTIVE_SLAVE, member_index))
    info = nla.nest(IFLA_LINKINFO, nla.text(IFLA_INFO_KIND, "bond"), options)
    return Request(RTM_NEWLINK, 0, _IFINFO.pack(0, 0, bond_index, 0, 0) + info)


class Reflex:
    """One thread with one socket. :meth:`activate` never blocks."""

    def __init__(self) -> None:
        self._wishes: queue.Queue[tuple[int, int, Callable[[str], None]] | None]
        self._wishes = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Have the thread ready, before the first wish; a second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="linkhold-reflex")
            self._thread.start()

    def activate(self, bond_index: int, member_index: int, done: Callable[[str], None]) -> None:
        """Ask for it; ``done`` gets the kernel's reason against it, empty for none, in the thread.

        The caller hears of a full queue at once.
        """
        self.start()
        try:
            self._wishes.put_nowait((bond_index, member_index, done))
        except queue.Full:
            done("earlier moves still wait for the kernel")

    def stop(self) -> None:
        """Let the thread end; one that waits for the kernel is left behind."""
        try:
            self._wishes.put_nowait(None)
        except queue.Full:
            return

    def _work(self) -> None:
        exchange: Exchange | None = None
        while (wish := self._wishes.get()) is not None:
            bond_index, member_index, done = wish
            try:
                exchange = exchange or Exchange()
                verdict = exchange.change([request(bond_index, member_index)])[0]
                error = verdict.reason if verdict.code else ""
            except (HostError, OSError) as problem:
                exchange, error = None, str(problem)
            done(error)
