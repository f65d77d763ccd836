"""The established TCP connections of the network namespace that the calling thread is in."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from linkhold.model import Unavailable
from linkhold.model.errors import HostError
from linkhold.rtnl.exchange import Exchange
from linkhold.rtnl.framing import Malformed
from linkhold.rtnl.inet_diag import (
    FAMILIES,
    RETRANSMISSION,
    SOCK_DIAG_BY_FAMILY,
    ZERO_WINDOW,
    parse,
    request,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkhold.model.keepalive import Connection

NETLINK_SOCK_DIAG = 4
BUSY = frozenset({RETRANSMISSION, ZERO_WINDOW})
"""Timers that hide a keepalive timer: inet_diag names one only."""
_LACKS = "the kernel does not list sockets (modules inet_diag and tcp_diag)"


def listed(namespace: int) -> list[Connection]:
    """Return the established TCP connections of this namespace, whose inode is ``namespace``.

    No rights are needed. A connection that moves within the kernel's table meanwhile may be
    listed twice: then the later line counts. Raises :class:`Unavailable` where the kernel does
    not answer.
    """
    found: list[Connection] = []
    try:
        with Exchange(NETLINK_SOCK_DIAG, "sock_diag") as kernel:
            for family in FAMILIES:
                found += parse(kernel.dump(SOCK_DIAG_BY_FAMILY, request(family)), namespace)
    except OSError as error:
        if error.errno in {errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT}:
            raise Unavailable(_LACKS) from error
        raise Unavailable(f"sock_diag: {error.strerror}") from error
    except (HostError, Malformed) as error:
        raise Unavailable(f"{error}; {_LACKS}" if "dump" in str(error) else str(error)) from error
    return list({_key(one): one for one in found}.values())


def busy(connections: Iterable[Connection]) -> bool:
    """Whether the timer of one of them hides whether keepalive runs."""
    return any(one.timer in BUSY for one in connections)


def settled(first: Sequence[Connection], later: Iterable[Connection]) -> tuple[Connection, ...]:
    """Return the connections of a first look; of one that was busy what a later look shows."""
    again = {_key(one): one for one in later}
    return tuple(again.get(_key(one), one) if one.timer in BUSY else one for one in first)


def _key(one: Connection) -> tuple[str, int, str, int]:
    return one.local, one.local_port, one.remote, one.remote_port
