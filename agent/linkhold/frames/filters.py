"""Classic BPF (linux/filter.h): what a packet socket lets in; nothing else wakes its owner.

Places are those in a frame without a VLAN tag, which the kernel takes off. Pure.
"""

from __future__ import annotations

import socket
import struct

from linkhold.frames.neighbours import (
    ADVERTISEMENT,
    ARP_REPLY,
    ETH_P_ARP,
    ETH_P_IPV6,
    ICMPV6,
)

AT_PROTOCOL, AT_ARP_OPERATION, AT_ARP_SENDER, AT_ARP_TARGET = 12, 20, 28, 38
AT_NEXT_HEADER, AT_ICMP_TYPE, AT_ADVERTISED = 20, 54, 62

INSTRUCTION = struct.Struct("=HBBI")
_LOAD_BYTE, _LOAD_HALF, _LOAD_WORD = 0x30, 0x28, 0x20
_EQUAL, _EQUAL_X, _TO_X, _RETURN = 0x15, 0x1D, 0x07, 0x06
_WHOLE = 0xFFFF

_Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""


def answer_filter() -> bytes:
    """Return a filter for every ARP reply and neighbour advertisement, for all protocols."""
    return _packed(
        [
            (_LOAD_HALF, 0, 0, AT_PROTOCOL),
            (_EQUAL, 0, 2, ETH_P_ARP),
            (_LOAD_HALF, 0, 0, AT_ARP_OPERATION),
            (_EQUAL, 5, 6, ARP_REPLY),
            (_EQUAL, 0, 5, ETH_P_IPV6),
            (_LOAD_BYTE, 0, 0, AT_NEXT_HEADER),
            (_EQUAL, 0, 3, ICMPV6),
            (_LOAD_BYTE, 0, 0, AT_ICMP_TYPE),
            (_EQUAL, 0, 1, ADVERTISEMENT),
            (_RETURN, 0, 0, _WHOLE),
            (_RETURN, 0, 0, 0),
        ]
    )


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
    return _packed(program)


def _packed(program: list[_Instruction]) -> bytes:
    return b"".join(INSTRUCTION.pack(*instruction) for instruction in program)
