"""A packet socket on one NIC that hears only ARP replies and neighbour advertisements.

packet(7), socket(7), and the kernel's filter.rst. It is bound to all protocols: a socket for one
of them gets frames of other VLANs without their tag (vlan handling in __netif_receive_skb_core),
this one gets it beside the frame. So the kernel's filter must keep out all that is not wanted.
Being bound to a bond's backup port it hears what the bond itself drops (RX_HANDLER_EXACT).
Standard library only.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from typing import TYPE_CHECKING

from linkhold.frames.filters import answer_filter
from linkhold.frames.packet_socket import SOL_PACKET, open_packet_socket, receive_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

ETH_P_ALL = 3
PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 8, 23
PACKET_OUTGOING = 4
TP_STATUS_VLAN_VALID = 0x10
VLAN_ID = 0xFFF
FRAME_BYTES = 2048
MAX_FRAMES = 1000  # taken at once: a storm must not keep the caller from its deadline

_AUXDATA = struct.Struct("@IIIHHHH")


class PacketPort:
    """The socket; use it in a ``with`` statement. Raises OSError, also without CAP_NET_RAW.

    ``hardware`` is the interface's ARPHRD, ``mac`` its present address.
    """

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self._socket = open_packet_socket(answer_filter())
        try:
            self._prepare()
        except OSError:
            self._socket.close()
            raise
        name = self._socket.getsockname()
        self.hardware, self.mac = int(name[3]), bytes(name[4]).hex(":")

    def _prepare(self) -> None:
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        with contextlib.suppress(OSError):  # since Linux 4.20; spares a copy of each frame sent
            self._socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self._socket.bind((self.interface, ETH_P_ALL))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def let_in(self, mac: str) -> None:
        """Have the NIC take frames to ``mac``, while the socket is open."""
        if mac != self.mac:
            receive_for(self._socket, socket.if_nametoindex(self.interface), mac)

    def send(self, frame: bytes) -> None:
        """Send one frame as it is."""
        self._socket.send(frame)

    def wait(self, seconds: float) -> bool:
        """Wait for a frame; False when none came in time."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return seconds > 0 and bool(poller.poll(seconds * 1000))

    def received(self) -> Iterator[bytes]:
        """Yield the frames that wait; none of our own, and none of a VLAN."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(MAX_FRAMES):
                data, extra, _, sender = self._socket.recvmsg(FRAME_BYTES, 64)
                if sender[2] != PACKET_OUTGOING and not _vlan(extra):
                    yield data


def _vlan(extra: list[tuple[int, int, bytes]]) -> int:
    """Return the VLAN that the frame was tagged with; the kernel takes the tag out of it."""
    for level, kind, data in extra:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA) and len(data) >= _AUXDATA.size:
            status, *_, tag, _ = _AUXDATA.unpack_from(data)
            return int(tag & VLAN_ID) if status & TP_STATUS_VLAN_VALID else 0
    return 0
