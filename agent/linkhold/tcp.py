"""TCP sockets by their descriptor: what they say of themselves, and their keepalive (tcp(7)).

Training processes use it on their own sockets, the agent on copies of theirs. A copy shares all
that is set with the original, so nothing but the options named here is ever changed.
"""

from __future__ import annotations

import _socket  # socket.socket may be replaced by gevent and the like, which set O_NONBLOCK
import errno
import os
from typing import TYPE_CHECKING

from linkhold.model.cover import Exclusions, Outcome, TcpSocket, judge, plain
from linkhold.model.keepalive import Timers

if TYPE_CHECKING:
    from collections.abc import Iterator

Socket = _socket.socket
_FAMILIES = (_socket.AF_INET, _socket.AF_INET6)
_TIMERS = (_socket.TCP_KEEPIDLE, _socket.TCP_KEEPINTVL, _socket.TCP_KEEPCNT)
_SOCKET, _TCP = _socket.SOL_SOCKET, _socket.IPPROTO_TCP


def adopt(descriptor: int) -> Socket:
    """Return an object for a descriptor of ours, which its ``close()`` closes.

    It is made without touching the socket. CPython applies ``socket.setdefaulttimeout()`` to
    what it wraps, which sets O_NONBLOCK for every copy, unless the type says SOCK_NONBLOCK
    (init_sockobject in Modules/socketmodule.c). AF_INET6 makes room for addresses of both families.
    """
    kind = _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK
    try:
        return _socket.socket(_socket.AF_INET6, kind, _TCP, fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise


def look(sock: Socket) -> TcpSocket | Outcome:
    """Return what a socket is, or why it is none to cover. Raises :class:`OSError`."""
    domain = sock.getsockopt(_SOCKET, _socket.SO_DOMAIN)
    if domain not in _FAMILIES or sock.getsockopt(_SOCKET, _socket.SO_PROTOCOL) != _TCP:
        return Outcome.OTHER
    if sock.getsockopt(_SOCKET, _socket.SO_ACCEPTCONN):
        return Outcome.OTHER
    try:
        remote = sock.getpeername()
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            return Outcome.UNCONNECTED
        raise
    local = sock.getsockname()
    return TcpSocket(
        plain(local[0]),
        local[1],
        plain(remote[0]),
        remote[1],
        bool(sock.getsockopt(_SOCKET, _socket.SO_KEEPALIVE)),
        sock.getsockopt(_TCP, _socket.TCP_USER_TIMEOUT),
        Timers(*(sock.getsockopt(_TCP, option) for option in _TIMERS)),
    )


def cover(sock: Socket, exclusions: Exclusions, timers: Timers) -> Outcome:
    """Give a socket keepalive if it is one to cover; tell what became of it."""
    try:
        found = look(sock)
        outcome = judge(found, exclusions) if isinstance(found, TcpSocket) else found
        if outcome is not Outcome.COVERED:
            return outcome
        return Outcome.COVERED if switch(sock, timers, on=True) else Outcome.REFUSED
    except OSError:
        return Outcome.REFUSED


def change(sock: Socket, before: Timers, after: Timers | None, found: Timers) -> bool:
    """Give a socket that we covered other values, or ``found`` and no keepalive for None.

    Tells whether it did: a socket that is no longer as we left it with ``before`` is its
    program's again. Raises :class:`OSError`.
    """
    seen = look(sock)
    if not isinstance(seen, TcpSocket) or not seen.keepalive or seen.timers != before:
        return False
    return switch(sock, after or found, on=after is not None)


def switch(sock: Socket, timers: Timers, *, on: bool) -> bool:
    """Set values and SO_KEEPALIVE; tell whether they read back. Raises :class:`OSError`.

    The values go first: SO_KEEPALIVE arms the timer with those that are there.
    """
    values = (timers.time_s, timers.interval_s, timers.probes)
    if not on:
        sock.setsockopt(_SOCKET, _socket.SO_KEEPALIVE, 0)
    for option, value in zip(_TIMERS, values, strict=True):
        sock.setsockopt(_TCP, option, value)
    if on:
        sock.setsockopt(_SOCKET, _socket.SO_KEEPALIVE, 1)
    seen = tuple(sock.getsockopt(_TCP, option) for option in _TIMERS)
    return seen == values and bool(sock.getsockopt(_SOCKET, _socket.SO_KEEPALIVE)) is on


def descriptors(folder: str) -> Iterator[tuple[int, str]]:
    """Yield the descriptors in a /proc/PID/fd and what they are open on, as proc(5) words it.

    Links are read, not followed: that cannot wait for a file system. Raises :class:`OSError`
    when the folder or the links in it, which take more rights, may not be read.
    """
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in os.listdir(root):  # noqa: PTH208 - a descriptor has no Path
            try:
                yield int(name), os.readlink(name, dir_fd=root)
            except (FileNotFoundError, ProcessLookupError):
                continue  # closed meanwhile
    finally:
        os.close(root)
