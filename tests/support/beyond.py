"""The network at the other end of a node's cable: a gateway that answers, and a resolver in it.

A thread answers frames on the cable's far end: ARP for the gateway's address, echoes to it, and DNS
questions to it. So the node has a gateway in the very namespace in which a test pulls its cable.
It ends with the test process.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from linkhold.frames.checksum import checksum
from support.places import GATEWAY

if TYPE_CHECKING:
    from typing_extensions import Self

    from support.netns import Namespace

MAC = "02:00:00:00:be:01"
ETH_P_ALL, ARP, IPV4 = 0x0003, b"\x08\x06", b"\x08\x00"
ICMP, UDP, DNS_PORT, ECHO_REQUEST = 1, 17, 53, 8
PACKET_OUTGOING = 4
ANSWERED, QUESTION_BYTES = 0x8180, 12
AGAIN_S = 0.05


class Beyond:
    """What answers on ``link``, in a ``with`` statement. ``speaks`` is what it answers now.

    Words of ``speaks``: ``arp``, ``icmp``, ``dns``. ``asked`` counts what came, by the same words.
    """

    def __init__(self, ns: Namespace, link: str, address: str = GATEWAY) -> None:
        self.speaks = {"arp", "icmp", "dns"}
        self.asked = dict.fromkeys(self.speaks, 0)
        self._ns, self._link = ns, link
        self._address = socket.inet_aton(address)
        self._mac = bytes.fromhex(MAC.replace(":", ""))
        self._ending = threading.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(5), "nobody listens beyond the cable"
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with self._ns.enter():
            while not self._ending.is_set():
                with contextlib.suppress(OSError):  # the link is down, or gone and made again
                    self._listen()
                time.sleep(AGAIN_S)

    def _listen(self) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as sock:
            sock.bind((self._link, ETH_P_ALL))
            sock.settimeout(AGAIN_S)
            self._listens.set()
            while not self._ending.is_set():
                with contextlib.suppress(TimeoutError):
                    frame, where = sock.recvfrom(2048)
                    answer = self._answer(frame) if where[2] != PACKET_OUTGOING else None
                    if answer is not None:
                        sock.send(answer)

    def _answer(self, frame: bytes) -> bytes | None:
        head = frame[6:12] + self._mac + frame[12:14]
        if frame[12:14] == ARP:
            body = self._arp(frame[14:42])
        elif frame[12:14] == IPV4 and frame[30:34] == self._address:
            body = self._packet(frame[14:])
        else:
            return None
        return None if body is None else head + body

    def _arp(self, asked: bytes) -> bytes | None:
        if asked[6:8] != b"\0\1" or asked[24:28] != self._address or not self._may("arp"):
            return None
        return asked[:6] + b"\0\2" + self._mac + self._address + asked[8:18]

    def _packet(self, packet: bytes) -> bytes | None:
        size = (packet[0] & 15) * 4
        body = packet[size : int.from_bytes(packet[2:4], "big")]
        if packet[9] == ICMP and body[0] == ECHO_REQUEST and self._may("icmp"):
            plain = b"\0\0\0\0" + body[4:]
            return _ipv4(packet, plain[:2] + struct.pack("!H", checksum(plain)) + plain[4:])
        if packet[9] == UDP and body[2:4] == struct.pack("!H", DNS_PORT) and self._may("dns"):
            asked = body[8:]
            flags = struct.pack("!HHHHH", ANSWERED, 1, 0, 0, 0)
            answer = asked[:2] + flags + asked[QUESTION_BYTES:]
            ports = body[2:4] + body[0:2]
            return _ipv4(packet, ports + struct.pack("!HH", 8 + len(answer), 0) + answer)
        return None

    def _may(self, word: str) -> bool:
        self.asked[word] += 1
        return word in self.speaks


def _ipv4(asked: bytes, body: bytes) -> bytes:
    """Return a packet back to the sender of ``asked``, without options."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, asked[9], 0)
    ends = asked[16:20] + asked[12:16]
    return head[:10] + struct.pack("!H", checksum(head + ends)) + ends + body
