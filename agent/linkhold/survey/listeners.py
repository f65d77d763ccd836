"""Which processes listen to the agent of this node, by their connections to its broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.model.errors import HostError
from linkhold.paths import AGENT_SOCKET, BROKER_SOCKET
from linkhold.rtnl.exchange import Exchange
from linkhold.rtnl.framing import Malformed
from linkhold.rtnl.inet_diag import SOCK_DIAG_BY_FAMILY
from linkhold.rtnl.unix_diag import clients, request
from linkhold.survey.socket_owners import owners

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.survey.files import Reader

NETLINK_SOCK_DIAG = 4


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is connected to the broker.

    ``pids`` are processes that were asked about; ``unseen`` is how many connections belong to
    processes that we may not look into. In the unit's sandbox that is every one.
    """

    pids: frozenset[int] = frozenset()
    unseen: int = 0


def listeners(reader: Reader, pids: Iterable[int]) -> Listeners | None:
    """Return which of these processes are connected to the broker, and how many more may be.

    None where that cannot be known: no broker runs, or the kernel does not list Unix sockets.
    """
    try:
        with Exchange(NETLINK_SOCK_DIAG, "sock_diag") as kernel:
            told = kernel.dump(SOCK_DIAG_BY_FAMILY, request())
            found = clients(told, f"/{BROKER_SOCKET}".encode(), f"/{AGENT_SOCKET}".encode())
    except (OSError, HostError, Malformed):
        return None
    if found is None:
        return None
    held = owners(reader, pids)
    unread = frozenset(held.unread)  # of these nobody knows: they may listen
    theirs = unread.union(*(held.by_inode[inode] for inode in found if inode in held.by_inode))
    return Listeners(theirs, _unseen(reader, found - held.by_inode.keys()))


def _unseen(reader: Reader, connections: frozenset[int]) -> int:
    """Return how many of these belong to no process that we may look into."""
    return len(connections - owners(reader).by_inode.keys()) if connections else 0
