"""What packet(7) sockets of this package's users are told, as bytes."""

from __future__ import annotations

import array
import socket
import struct

from linkhold.frames.filters import INSTRUCTION
from linkhold.frames.neighbours import MAC_BYTES, octets

SO_ATTACH_FILTER = 26
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_DROP_MEMBERSHIP, PACKET_MR_UNICAST = 263, 1, 2, 3

_PROGRAM = struct.Struct("@HP")  # struct sock_fprog: unsigned short len, struct sock_filter *filter
_MEMBERSHIP = struct.Struct("@iHH8s")  # struct packet_mreq: ifindex, type, alen, address


def open_packet_socket(program: bytes) -> socket.socket:
    """Return a socket with the filter ``program`` that hears nothing until it is bound.

    Of no protocol before: else what others talk gets in before the filter is there.
    """
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    try:
        made.setblocking(False)
        code = array.array("B", program)
        request = _PROGRAM.pack(len(program) // INSTRUCTION.size, code.buffer_info()[0])
        made.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, request)
    except OSError:
        made.close()
        raise
    return made


def receive_for(sock: socket.socket, index: int, mac: str) -> None:
    """Let the NIC pass frames for ``mac`` up, as long as the socket is open.

    A NIC whose driver has no filter for a second address becomes promiscuous by that
    (IFF_UNICAST_FLT in ``__dev_set_rx_mode``, net/core/dev.c).
    """
    sock.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, _unicast(index, mac))


def receive_no_more(sock: socket.socket, index: int, mac: str) -> None:
    """Take :func:`receive_for` back."""
    sock.setsockopt(SOL_PACKET, PACKET_DROP_MEMBERSHIP, _unicast(index, mac))


def _unicast(index: int, mac: str) -> bytes:
    return _MEMBERSHIP.pack(index, PACKET_MR_UNICAST, MAC_BYTES, octets(mac))
