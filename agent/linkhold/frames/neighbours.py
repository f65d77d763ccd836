"""Ethernet frames of ARP (RFC 826, 5227) and of neighbour discovery (RFC 4861): made and read.

Who has no address to ask from asks by an ARP probe (RFC 5227: sender address 0.0.0.0), so that
nobody learns an address with its MAC. IPv6 knows no such thing: a solicitation from the
unspecified address is a claim to the target's address (RFC 4862, 5.4.3). A gateway that is just
taking its address gives it up for that; any other logs it and answers to every host of the
network. So it asks from a link-local address made of its MAC, but not as hosts make theirs (RFC
4291, appendix A): that one may be in use with another MAC, as by a bond with ``fail_over_mac`` that
took its member's addresses over. MAC addresses are text, with colons. Pure.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from linkhold.frames.checksum import checksum

ETH_P_ARP, ETH_P_8021Q, ETH_P_IPV6 = 0x0806, 0x8100, 0x86DD
BROADCAST, NO_MAC = "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"
ALL_NODES, ALL_NODES_MAC = socket.inet_pton(socket.AF_INET6, "ff02::1"), b"\x33\x33\0\0\0\x01"
ARP_REQUEST, ARP_REPLY = 1, 2
ICMPV6, SOLICITATION, ADVERTISEMENT = 58, 135, 136
SOURCE_MAC_OPTION, TARGET_MAC_OPTION = 1, 2
ROUTER, SOLICITED, OVERRIDE = 0x80000000, 0x40000000, 0x20000000
UNSPECIFIED_4 = "0.0.0.0"  # noqa: S104 - not an address to listen on: the sender of an ARP probe

_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ARP_HEAD = (1, 0x0800, 6, 4)  # Ethernet, IPv4, and the sizes of their addresses
_IPV6 = struct.Struct("!IHBB16s16s")
_NEIGHBOUR = struct.Struct("!BBHI16s")
_NOT_EUI_64 = b"lh"  # where that has ff:fe
ETHER_BYTES, MAC_BYTES = 14, 6
HOP_LIMIT = 255  # any other has crossed a router and is ignored (RFC 4861, 7.1)


class Heard(NamedTuple):
    """Who told something: its address, where it can be reached, and whom it told."""

    address: str
    mac: str
    destination: str
    reply: bool


def octets(mac: str) -> bytes:
    """Return the six bytes of a MAC address; raises ValueError for anything else."""
    raw = bytes.fromhex(mac.replace(":", ""))
    if len(raw) != MAC_BYTES:
        raise ValueError(f"{mac!r} is no Ethernet address")
    return raw


def probe(target: str, target_mac: str, source: str, source_mac: str, vlan_id: int = 0) -> bytes:
    """Return the frame that asks for ``target``; an empty ``target_mac`` asks everybody.

    ``source`` is our own address to name; empty for none.
    """
    if ":" in target:
        return _solicitation(target, target_mac, source, octets(source_mac), vlan_id)
    sender = (source_mac, source or UNSPECIFIED_4)
    return arp(ARP_REQUEST, sender, (NO_MAC, target), to=target_mac or BROADCAST, vlan_id=vlan_id)


def arp(
    operation: int,
    sender: tuple[str, str],
    target: tuple[str, str],
    *,
    to: str = BROADCAST,
    vlan_id: int = 0,
) -> bytes:
    """Return an ARP frame; both ends are (MAC, IPv4 address)."""
    ends = [(octets(mac), socket.inet_pton(socket.AF_INET, ip)) for mac, ip in (sender, target)]
    body = _ARP.pack(*_ARP_HEAD, operation, *ends[0], *ends[1])
    return _ethernet(octets(to), ends[0][0], ETH_P_ARP, vlan_id) + body


def _ethernet(to: bytes, source: bytes, kind: int, vlan_id: int) -> bytes:
    tag = struct.pack("!HH", ETH_P_8021Q, vlan_id) if vlan_id else b""
    return to + source + tag + struct.pack("!H", kind)


def _solicitation(target: str, target_mac: str, source: str, mac: bytes, vlan_id: int) -> bytes:
    asked = socket.inet_pton(socket.AF_INET6, target)
    ours = socket.inet_pton(socket.AF_INET6, source) if source else link_local(mac)
    if target_mac:
        to, destination = octets(target_mac), asked
    else:  # the solicited-node multicast address (RFC 4291, 2.7.1) and its MAC (RFC 2464, 7)
        destination = bytes.fromhex("ff0200000000000000000001ff") + asked[-3:]
        to = b"\x33\x33" + destination[-4:]
    body = _NEIGHBOUR.pack(SOLICITATION, 0, 0, 0, asked) + bytes((SOURCE_MAC_OPTION, 1)) + mac
    return _ethernet(to, mac, ETH_P_IPV6, vlan_id) + _icmpv6(ours, destination, body)


def link_local(mac: bytes) -> bytes:
    """Return a link-local address made of a MAC that no interface has: no modified EUI-64."""
    return b"\xfe\x80" + bytes(6) + mac[:3] + _NOT_EUI_64 + mac[3:]


def advertisement(mac: str, address: str, *, router: bool) -> bytes:
    """Return an unsolicited neighbour advertisement that overrides what is cached (7.2.6)."""
    raw, own = socket.inet_pton(socket.AF_INET6, address), octets(mac)
    flags = OVERRIDE | (ROUTER if router else 0)
    option = bytes((TARGET_MAC_OPTION, 1)) + own
    body = _NEIGHBOUR.pack(ADVERTISEMENT, 0, 0, flags, raw) + option
    return _ethernet(ALL_NODES_MAC, own, ETH_P_IPV6, 0) + _icmpv6(raw, ALL_NODES, body)


def _icmpv6(source: bytes, to: bytes, body: bytes) -> bytes:
    """Return the packet around a message, whose checksum it fills in."""
    total = checksum(source + to + struct.pack("!II", len(body), ICMPV6) + body)
    head = _IPV6.pack(6 << 28, len(body), ICMPV6, HOP_LIMIT, source, to)
    return head + body[:2] + struct.pack("!H", total) + body[4:]


def heard(frame: bytes) -> Heard | None:
    """Return what a received frame tells; None for anything but an answer or announcement.

    The checksum is not looked at: network cards do that. Hop limit and sizes are.
    """
    if len(frame) < ETHER_BYTES:
        return None
    kind = int.from_bytes(frame[12:14], "big")
    if kind == ETH_P_ARP:
        return _heard_arp(frame)
    if kind == ETH_P_IPV6:
        return _heard_advertisement(frame)
    return None


def _heard_arp(frame: bytes) -> Heard | None:
    if len(frame) < ETHER_BYTES + _ARP.size:
        return None
    fields = _ARP.unpack_from(frame, ETHER_BYTES)
    operation, mac, sender, target = fields[4], fields[5], fields[6], fields[8]
    if fields[:4] != _ARP_HEAD or (operation != ARP_REPLY and sender != target):
        return None
    reply = operation == ARP_REPLY and sender != target
    return Heard(socket.inet_ntoa(sender), mac.hex(":"), frame[:6].hex(":"), reply)


def _heard_advertisement(frame: bytes) -> Heard | None:
    start = ETHER_BYTES + _IPV6.size
    if len(frame) < start + _NEIGHBOUR.size:
        return None
    _, size, following, hops, _, _ = _IPV6.unpack_from(frame, ETHER_BYTES)
    kind, code, _, flags, address = _NEIGHBOUR.unpack_from(frame, start)
    if (following, hops, kind, code) != (ICMPV6, HOP_LIMIT, ADVERTISEMENT, 0):
        return None
    mac = _target_mac(frame[start + _NEIGHBOUR.size : start + size]) or frame[6:12]
    name = socket.inet_ntop(socket.AF_INET6, address)
    return Heard(name, mac.hex(":"), frame[:6].hex(":"), bool(flags & SOLICITED))


def _target_mac(options: bytes) -> bytes:
    position = 0
    while position + 8 <= len(options) and options[position + 1]:  # no length: nonsense (4.6)
        if options[position] == TARGET_MAC_OPTION:
            return options[position + 2 : position + 8]
        position += 8 * options[position + 1]
    return b""
