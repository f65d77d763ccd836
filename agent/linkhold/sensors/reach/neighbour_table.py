"""What the kernel's neighbour table says of one address (linux/neighbour.h). Needs no rights.

Asked for by one address, which Linux can from 5.0 on: a dump would take long where there are many.
"""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass

from linkhold.model import HostError
from linkhold.rtnl.attributes import attributes, pack
from linkhold.rtnl.exchange import Exchange
from linkhold.rtnl.framing import Malformed
from linkhold.sensors.reach.sockets import Blind, index_of

RTM_GETNEIGH = 30
NDMSG = struct.Struct("=BxxxiHBB")
NDA_DST, NDA_CACHEINFO = 1, 3
CACHEINFO = struct.Struct("=IIII")
"""``struct nda_cacheinfo``: ticks since confirmed, used and updated; references."""
REACHABLE = 0x02
VAIN = 0x01 | 0x20
"""NUD_INCOMPLETE, NUD_FAILED: the kernel asks, or has asked, without an answer."""
FIXED = 0x40 | 0x80
"""NUD_NOARP, NUD_PERMANENT: the kernel never asks."""
STATES = {0x01: "incomplete", 0x02: "reachable", 0x04: "stale", 0x08: "delay", 0x10: "probe",
          0x20: "failed", 0x40: "noarp", 0x80: "permanent"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry. ``confirmed_s`` is how long ago an answer confirmed it, None without one."""

    state: int
    confirmed_s: float | None

    @property
    def vain(self) -> bool:
        """Whether the kernel asks without an answer."""
        return bool(self.state & VAIN)

    @property
    def fixed(self) -> bool:
        """Whether the entry holds without any answer."""
        return bool(self.state & FIXED)

    @property
    def text(self) -> str:
        """The entry in the words of ``ip neigh``."""
        return f"the neighbour table calls it {STATES.get(self.state, hex(self.state))}"


def neighbour(link: str, address: str) -> Neighbour | None:
    """Return the entry of an address on a link, None where none is to be had. Blocking."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        raw = socket.inet_pton(family, address)
        head = NDMSG.pack(family, index_of(link), 0, 0, 0)
        with Exchange() as kernel:
            return parsed(kernel.get(RTM_GETNEIGH, head + pack(NDA_DST, raw)))
    except (Blind, HostError, Malformed, OSError, struct.error):
        return None


def parsed(body: bytes) -> Neighbour:
    """Return the entry that the body of an RTM_NEWNEIGH message describes.

    Raises :class:`Malformed` for a body that is cut off.
    """
    if len(body) < NDMSG.size:
        raise Malformed("a message body is cut off")
    state = NDMSG.unpack_from(body)[2]
    found = attributes(body, NDMSG.size, len(body))
    confirmed_s = None
    start, end = found.get(NDA_CACHEINFO, (0, 0))
    if end - start >= CACHEINFO.size and state & REACHABLE:
        ticks = CACHEINFO.unpack_from(body, start)[0]
        confirmed_s = ticks / os.sysconf("SC_CLK_TCK")
    return Neighbour(state, confirmed_s)
