"""The packet sockets of gateway probes, kept between questions.

To close one waits until no CPU uses it (synchronize_net in packet_release), 10 ms and more, and to
make one is a dozen system calls: who asks all day keeps them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from linkhold.frames import neighbours
from linkhold.frames.filters import advertisement_filter, arp_filter
from linkhold.frames.packet_socket import open_packet_socket
from linkhold.sensors.reach.sockets import Blind

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

T = TypeVar("T")
MOST_KEPT = 16
FRAME_BYTES = 256
MOST_DRAINED = 256


class OffLoop(Protocol):
    """Runs a call that blocks, and returns what it returns."""

    def __call__(self, call: Callable[[], T], /) -> Coroutine[Any, Any, T]:
        """Return what ``call`` returns, once it has."""


class Ears:
    """Sockets by link and address, while nobody asks by them. Belongs to one event loop.

    ``off_loop``: a daemon gives threads that keep nobody from ending. ``kept`` False: each question
    has a socket of its own.
    """

    def __init__(self, off_loop: OffLoop = asyncio.to_thread, *, kept: bool = True) -> None:
        self.off_loop = off_loop
        self._kept = kept
        self._sockets: dict[tuple[str, str], socket.socket] = {}

    def take(self, link: str, address: str) -> socket.socket:
        """Return a socket that hears only what ``address`` says of itself on ``link``.

        Raises :class:`Blind` without CAP_NET_RAW, OSError where there is no such link.
        """
        made = self._sockets.pop((link, address), None)
        if made is not None and _is_of(made, link):
            return made
        if made is not None:
            self.drop(made)
        return _listening(link, address)

    def give_back(self, link: str, address: str, sock: socket.socket) -> None:
        """Keep a socket for the next question; the oldest goes where there are many."""
        if not self._kept:
            self.drop(sock)
            return
        self._sockets[link, address] = sock
        if len(self._sockets) > MOST_KEPT:
            self.drop(self._sockets.pop(next(iter(self._sockets))))

    def drop(self, sock: socket.socket) -> None:
        """Close a socket, off the loop and also when that ends now."""
        threading.Thread(target=sock.close, daemon=True, name="linkhold-close").start()

    def close(self) -> None:
        """Keep nothing any more: close what is here now, and what comes back later."""
        self._kept = False
        for sock in self._sockets.values():
            self.drop(sock)
        self._sockets.clear()


def _is_of(sock: socket.socket, link: str) -> bool:
    """Tell whether a socket still hears ``link``, and empty it of what came unasked.

    A link that went down left an error in it, once (packet_notifier, net/packet/af_packet.c).
    """
    try:
        if sock.getsockname()[0] != link:  # gone, or another one has the name now
            return False
        for _ in range(MOST_DRAINED):
            with contextlib.suppress(ConnectionError):
                sock.recv(FRAME_BYTES)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def _listening(link: str, address: str) -> socket.socket:
    inet6 = ":" in address
    program = advertisement_filter((address,)) if inet6 else arp_filter((address,))
    try:
        made = open_packet_socket(program)
    except PermissionError:
        raise Blind(f"asking {address} by ARP needs CAP_NET_RAW") from None
    try:
        made.bind((link, neighbours.ETH_P_IPV6 if inet6 else neighbours.ETH_P_ARP))
    except BaseException:
        made.close()
        raise
    return made
