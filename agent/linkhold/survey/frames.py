"""Ethernet frames of ARP (RFC 826, 5227) and of neighbour discovery (RFC 4861): made and read.

Pure, standard library only: the guard process uses it too.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

ETH_P_ARP, ETH_P_IPV6 = 0x0806, 0x86DD
BROADCAST = b"\xff" * 6
ALL_NODES, ALL_NODES_MAC = socket.inet_pton(socket.AF_INET6, "ff02::1"), b"\x33\x33\0\0\0\x01"
UNSPECIFIED = bytes(16)

ARP_REQUEST, ARP_REPLY = 1, 2
ND_SOLICITATION, ND_ADVERTISEMENT = 135, 136
TARGET_MAC_OPTION = 2
NA_ROUTER, NA_OVERRIDE = 0x80000000, 0x20000000
HOP_LIMIT = 255  # receivers drop any other: such a packet has crossed a router (RFC 4861, 7.1)

_ETHERNET = struct.Struct("!6s6sH")
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_IPV6 = struct.Struct("!IHBB16s16s")
_ICMPV6 = struct.Struct("!BBHI16s")
_ARP_KIND = (1, 0x0800, 6, 4)  # Ethernet, IPv4, and the sizes of their addresses


class Neighbour(NamedTuple):
    """Somebody's word that ``address`` has ``mac``."""

    address: str
    mac: bytes


def mac_bytes(text: str) -> bytes:
    """Return a MAC address as six bytes; raises ValueError for anything else."""
    raw = bytes.fromhex(text.replace(":", ""))
    if len(raw) != len(BROADCAST):
        raise ValueError(f"{text!r} is no Ethernet address")
    return raw


def arp(operation: int, sender: tuple[bytes, str], target: tuple[bytes, str]) -> bytes:
    """Return a broadcast ARP frame; both ends are (MAC, IPv4 address)."""
    ends = [(mac, socket.inet_pton(socket.AF_INET, address)) for mac, address in (sender, target)]
    body = _ARP.pack(*_ARP_KIND, operation, *ends[0], *ends[1])
    return _ETHERNET.pack(BROADCAST, sender[0], ETH_P_ARP) + body


def solicitation(mac: bytes, target: str) -> bytes:
    """Return a neighbour solicitation from nobody (::), as for a duplicate address test.

    It goes to the target's solicited-node group and needs no address of ours; the answer goes to
    all nodes (RFC 4861, 7.2.4).
    """
    raw = socket.inet_pton(socket.AF_INET6, target)
    group = socket.inet_pton(socket.AF_INET6, "ff02::1:ff00:0")[:13] + raw[13:]
    message = _ICMPV6.pack(ND_SOLICITATION, 0, 0, 0, raw)
    return _framed(mac, b"\x33\x33" + group[12:], UNSPECIFIED, group, message)


def advertisement(mac: bytes, address: str, *, router: bool) -> bytes:
    """Return an unsolicited neighbour advertisement that overrides what is cached (7.2.6)."""
    raw = socket.inet_pton(socket.AF_INET6, address)
    flags = NA_OVERRIDE | (NA_ROUTER if router else 0)
    option = bytes((TARGET_MAC_OPTION, 1)) + mac
    message = _ICMPV6.pack(ND_ADVERTISEMENT, 0, 0, flags, raw) + option
    return _framed(mac, ALL_NODES_MAC, raw, ALL_NODES, message)


def _framed(mac: bytes, to_mac: bytes, source: bytes, to: bytes, message: bytes) -> bytes:
    """Return the frame around an ICMPv6 message, whose checksum it fills in."""
    pseudo = source + to + struct.pack("!I3xB", len(message), socket.IPPROTO_ICMPV6)
    check = struct.pack("!H", checksum(pseudo + message))
    message = message[:2] + check + message[4:]
    head = _IPV6.pack(6 << 28, len(message), socket.IPPROTO_ICMPV6, HOP_LIMIT, source, to)
    return _ETHERNET.pack(to_mac, mac, ETH_P_IPV6) + head + message


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def neighbour(frame: bytes) -> Neighbour | None:
    """Return what an ARP reply or a neighbour advertisement says; None for any other frame.

    The checksum is not looked at: network cards do that. Hop limit and sizes are.
    """
    if len(frame) < _ETHERNET.size:
        return None
    kind = _ETHERNET.unpack_from(frame)[2]
    if kind == ETH_P_ARP:
        return _from_arp(frame)
    return _from_advertisement(frame) if kind == ETH_P_IPV6 else None


def _from_arp(frame: bytes) -> Neighbour | None:
    if len(frame) < _ETHERNET.size + _ARP.size:
        return None
    *kind, operation, mac, address, _, _ = _ARP.unpack_from(frame, _ETHERNET.size)
    if tuple(kind) != _ARP_KIND or operation != ARP_REPLY:
        return None
    return Neighbour(socket.inet_ntop(socket.AF_INET, address), mac)


def _from_advertisement(frame: bytes) -> Neighbour | None:
    start = _ETHERNET.size + _IPV6.size
    if len(frame) < start + _ICMPV6.size:
        return None
    _, _, protocol, hops, _, _ = _IPV6.unpack_from(frame, _ETHERNET.size)
    kind, code, _, _, target = _ICMPV6.unpack_from(frame, start)
    if (protocol, hops, kind, code) != (socket.IPPROTO_ICMPV6, HOP_LIMIT, ND_ADVERTISEMENT, 0):
        return None
    mac = _option(frame, start + _ICMPV6.size) or _ETHERNET.unpack_from(frame)[1]
    return Neighbour(socket.inet_ntop(socket.AF_INET6, target), mac)


def _option(frame: bytes, position: int) -> bytes:
    """Return the MAC in the target link-layer address option; empty when there is none."""
    while position + 8 <= len(frame):
        kind, units = frame[position], frame[position + 1]
        if kind == TARGET_MAC_OPTION and units == 1:
            return frame[position + 2 : position + 8]
        if units == 0:
            break  # nonsense: an option of no length (RFC 4861, 4.6)
        position += units * 8
    return b""
