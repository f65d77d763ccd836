"""Which processes listen to the agent of this node, by their connections to its broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.model.errors import HostError
from linkhold.paths import BROKER_SOCKET
from linkhold.rtnl.exchange import Exchange
from linkhold.rtnl.framing import Malformed
from linkhold.rtnl.inet_diag import SOCK_DIAG_BY_FAMILY
from linkhold.rtnl.unix_diag import clients, request
from linkhold.survey.socket_owners import owners

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.survey.files import Reader

NETLINK_SOCK_DIAG = 4


def listeners(reader: Reader, pids: Iterable[int]) -> frozenset[int] | None:
    """Return which of these processes are connected to the broker.

    None where that cannot be known: no broker runs, or the kernel does not list Unix sockets.
    """
    try:
        with Exchange(NETLINK_SOCK_DIAG, "sock_diag") as kernel:
            found = clients(
                kernel.dump(SOCK_DIAG_BY_FAMILY, request()), f"/{BROKER_SOCKET}".encode()
            )
    except (OSError, HostError, Malformed):
        return None
    if found is None:
        return None
    held = owners(reader, pids)
    unread = frozenset(held.unread)  # of these nobody knows: they may listen
    return unread.union(*(held.by_inode[inode] for inode in found if inode in held.by_inode))
