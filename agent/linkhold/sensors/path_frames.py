"""Frames of path probes: ARP requests and neighbour solicitations, and their answers. Pure.

A standby asks by an ARP probe (RFC 5227: sender address 0.0.0.0), so that nobody learns the
bond's address with the standby's MAC. IPv6 knows no such thing: a solicitation from the
unspecified address is a claim to the target's address (RFC 4862, 5.4.3), which routers log and
answer to every host of the network. So a standby asks from a link-local address made of its MAC
(RFC 4291, appendix A), which is nobody else's.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

ETH_P_ARP, ETH_P_8021Q, ETH_P_IPV6 = 0x0806, 0x8100, 0x86DD
BROADCAST = b"\xff" * 6
ARP_REQUEST, ARP_REPLY = 1, 2
ICMPV6, SOLICITATION, ADVERTISEMENT = 58, 135, 136
SOURCE_MAC_OPTION, TARGET_MAC_OPTION = 1, 2
SOLICITED = 0x40
UNSPECIFIED_4 = "0.0.0.0"  # noqa: S104 - not an address to listen on: the sender of an ARP probe

_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ARP_HEAD = (1, 0x0800, 6, 4)  # Ethernet, IPv4
_IPV6 = struct.Struct("!IHBB16s16s")
_NEIGHBOUR = struct.Struct("!BBHI16s")
ETHER_BYTES = 14
HOP_LIMIT = 255  # RFC 4861, 7.1: others are ignored

# Places in a frame without a VLAN tag, which the kernel takes off: for filters.
AT_ARP_OPERATION, AT_ARP_SENDER, AT_ARP_TARGET = 20, 28, 38
AT_NEXT_HEADER, AT_ICMP_TYPE, AT_ADVERTISED = 20, 54, 62


class Heard(NamedTuple):
    """Who told something: its address, where it can be reached, and whom it told."""

    address: str
    mac: str
    destination: str
    reply: bool


def octets(mac: str) -> bytes:
    """Return the bytes of a MAC address written with colons."""
    return bytes.fromhex(mac.replace(":", ""))


def probe(target: str, target_mac: str, source: str, source_mac: str, vlan_id: int = 0) -> bytes:
    """Return the frame that asks for ``target``; an empty ``target_mac`` asks everybody.

    ``source`` is our own address to name; empty for none.
    """
    if ":" in target:
        return _solicitation(target, target_mac, source, octets(source_mac), vlan_id)
    sender = socket.inet_aton(source or UNSPECIFIED_4)
    body = _ARP.pack(
        *_ARP_HEAD, ARP_REQUEST, octets(source_mac), sender, bytes(6), socket.inet_aton(target)
    )
    to = octets(target_mac) if target_mac else BROADCAST
    return _ethernet(to, octets(source_mac), ETH_P_ARP, vlan_id) + body


def _ethernet(to: bytes, source: bytes, kind: int, vlan_id: int) -> bytes:
    tag = struct.pack("!HH", ETH_P_8021Q, vlan_id) if vlan_id else b""
    return to + source + tag + struct.pack("!H", kind)


def _solicitation(
    target: str, target_mac: str, source: str, source_mac: bytes, vlan_id: int
) -> bytes:
    asked = socket.inet_pton(socket.AF_INET6, target)
    ours = socket.inet_pton(socket.AF_INET6, source) if source else link_local(source_mac)
    if target_mac:
        to, destination = octets(target_mac), asked
    else:  # the solicited-node multicast address (RFC 4291, 2.7.1) and its MAC (RFC 2464, 7)
        destination = bytes.fromhex("ff0200000000000000000001ff") + asked[-3:]
        to = b"\x33\x33" + destination[-4:]
    option = bytes((SOURCE_MAC_OPTION, 1)) + source_mac
    body = _NEIGHBOUR.pack(SOLICITATION, 0, 0, 0, asked) + option
    sum_ = checksum(ours + destination + struct.pack("!II", len(body), ICMPV6) + body)
    body = body[:2] + struct.pack("!H", sum_) + body[4:]
    head = _IPV6.pack(6 << 28, len(body), ICMPV6, HOP_LIMIT, ours, destination)
    return _ethernet(to, source_mac, ETH_P_IPV6, vlan_id) + head + body


def link_local(mac: bytes) -> bytes:
    """Return the link-local address that is made of a MAC (modified EUI-64)."""
    return b"\xfe\x80" + bytes(6) + bytes((mac[0] ^ 2,)) + mac[1:3] + b"\xff\xfe" + mac[3:]


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of ``data``."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def heard(frame: bytes) -> Heard | None:
    """Return what a received frame tells; None for anything but an answer or announcement."""
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
    reply = bool(flags >> 24 & SOLICITED)
    name = socket.inet_ntop(socket.AF_INET6, address)
    return Heard(name, mac.hex(":"), frame[:6].hex(":"), reply)


def _target_mac(options: bytes) -> bytes:
    position = 0
    while position + 8 <= len(options) and options[position + 1]:
        if options[position] == TARGET_MAC_OPTION:
            return options[position + 2 : position + 8]
        position += 8 * options[position + 1]
    return b""


# Classic BPF (linux/filter.h), so that only what may matter wakes the agent.

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD_BYTE, _LOAD_HALF, _LOAD_WORD = 0x30, 0x28, 0x20
_EQUAL, _EQUAL_X, _TO_X, _RETURN = 0x15, 0x1D, 0x07, 0x06
_WHOLE = 0xFFFF


def arp_filter(targets: tuple[str, ...]) -> bytes:
    """Return a filter for answers and announcements (sender = target) of IPv4 ``targets``."""
    words = [int.from_bytes(socket.inet_aton(target), "big") for target in targets]
    return _program(
        [(_LOAD_WORD, 0, 0, AT_ARP_SENDER)],
        words,
        [
            (_LOAD_HALF, 0, 0, AT_ARP_OPERATION),
            (_EQUAL, 4, 0, ARP_REPLY),
            (_LOAD_WORD, 0, 0, AT_ARP_SENDER),
            (_TO_X, 0, 0, 0),
            (_LOAD_WORD, 0, 0, AT_ARP_TARGET),
        ],
        ((_EQUAL_X, 0, 1, 0),),
    )


def advertisement_filter(targets: tuple[str, ...]) -> bytes:
    """Return a filter for advertisements of IPv6 ``targets``, told by their last four bytes."""
    raw = [socket.inet_pton(socket.AF_INET6, target) for target in targets]
    return _program(
        [(_LOAD_WORD, 0, 0, AT_ADVERTISED + 12)],
        [int.from_bytes(address[-4:], "big") for address in raw],
        [(_LOAD_BYTE, 0, 0, AT_NEXT_HEADER), (_EQUAL, 0, 3, ICMPV6)],
        ((_LOAD_BYTE, 0, 0, AT_ICMP_TYPE), (_EQUAL, 0, 1, ADVERTISEMENT)),
    )


_Instruction = tuple[int, int, int, int]


def _program(
    load: list[_Instruction],
    words: list[int],
    body: list[_Instruction],
    end: tuple[_Instruction, ...],
) -> bytes:
    """Compare the loaded word with each of ``words``, then go on with what follows."""
    matches = [
        (_EQUAL, len(words) - number, 0, word) for number, word in enumerate(words)
    ]  # a match jumps over the other comparisons and the refusal after them
    program = [
        *load,
        *matches,
        (_RETURN, 0, 0, 0),
        *body,
        *end,
        (_RETURN, 0, 0, _WHOLE),
        (_RETURN, 0, 0, 0),
    ]
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)
