"""Tells the neighbours that addresses now live behind a MAC: gratuitous ARP and unsolicited NA.

Both forms of ARP are sent, since hosts and switches differ in which they learn from: the request
with sender = target (RFC 5227, 2.3) and the reply (RFC 826's "merge"). IPv6: an unsolicited
neighbour advertisement with the override flag (RFC 4861, 7.2.6). Standard library only: the guard
process uses it too.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.frames import neighbours
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

ARPHRD_ETHER = 1


def announce(interface: str, addresses: Iterable[str], mac: str = "") -> int:
    """Announce ``addresses`` (a prefix length is passed over) once; return how many frames left.

    ``mac`` is what to announce, empty for the interface's own. Raises :class:`Unavailable` when
    nothing can be sent: no such interface, no right (CAP_NET_RAW), not Ethernet, set down.
    """
    plain = [address.partition("/")[0].partition("%")[0] for address in addresses]
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as port:
            port.bind((interface, 0))
            name = port.getsockname()
            if name[3] != ARPHRD_ETHER:
                raise Unavailable(f"{interface}: announcing needs Ethernet (ARPHRD {name[3]})")
            own = mac or bytes(name[4]).hex(":")
            made = [f for address in plain for f in _frames(interface, address, own)]
            return sum(port.send(frame) > 0 for frame in made)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unavailable(f"{interface}: cannot announce addresses: {reason}") from error


def _frames(interface: str, address: str, mac: str) -> list[bytes]:
    if ":" in address:
        return [neighbours.advertisement(mac, address, router=_is_router(interface))]
    return [
        neighbours.arp(neighbours.ARP_REQUEST, (mac, address), (neighbours.NO_MAC, address)),
        neighbours.arp(neighbours.ARP_REPLY, (mac, address), (mac, address)),
    ]


def _is_router(interface: str) -> bool:
    """A router that announces without the router flag is dropped as one (RFC 4861, 7.2.5)."""
    try:
        text = Path(f"/proc/sys/net/ipv6/conf/{interface}/forwarding").read_text(encoding="ascii")
    except (OSError, ValueError):
        return False
    return text.strip() not in {"", "0"}
