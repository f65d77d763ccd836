"""A cable with a bad contact: good frames pass, and damaged ones arrive between them.

Veth pairs damage nothing and count no errors, so the cable is a VXLAN of two ends. A frame that
arrives in a packet marked as congested, and does not know such marks itself, is thrown away and
counted as ``rx_frame_errors`` of the node's end (vxlan_ecn_decapsulate in
drivers/net/vxlan/vxlan_core.c), as a driver of hardware does with a frame of a wrong length.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

    from support.netns import Namespace

WIRE = "w0"
NEAR, FAR = "192.0.2.1", "192.0.2.2"
VXLAN_PORT, NUMBER = 4789, 7
CONGESTED = 3
EVERY_S = 0.05
DAMAGED = (
    struct.pack("!II", 1 << 27, NUMBER << 8)
    + b"\xff" * 6 + b"\2\0\0\0\0\7" + b"\x08\0"
    + struct.pack("!BBHIBBH4s4s", 0x45, 0, 20, 0, 64, 17, 0, bytes(4), bytes(4))
)  # fmt: skip
"""VXLAN header (RFC 7348), Ethernet, and an IPv4 header without a mark for congestion."""


class DamagedCable:
    """Makes ``near`` in one namespace and ``far`` in another, both up; use it with ``with``."""

    def __init__(self, node: Namespace, near: str, switch: Namespace, far: str) -> None:
        node.veth(WIRE, WIRE, other=switch)
        for space, name, own, other in ((node, near, NEAR, FAR), (switch, far, FAR, NEAR)):
            space.batch(
                f"addr add {own}/30 dev {WIRE}\n"
                f"link add {name} type vxlan id {NUMBER} dstport {VXLAN_PORT} remote {other} "
                f"dev {WIRE}\nlink set {name} up\n"
            )
        with switch.enter():
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, CONGESTED)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._damage, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._socket.close()

    def _damage(self) -> None:
        while not self._end.wait(EVERY_S):
            self._socket.sendto(DAMAGED, (NEAR, VXLAN_PORT))
