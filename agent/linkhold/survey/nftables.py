"""Packets that rules and policies of nf_tables drop, by two kinds of dumps; needs CAP_NET_ADMIN.

Only rules with a counter can tell how much they drop, and so do base chains with one
(linux/netfilter/nf_tables.h). iptables-nft makes such rules; legacy iptables is not seen here.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.rtnl.attributes import attributes, each
from linkhold.rtnl.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.rtnl.attributes import Span

NETLINK_NETFILTER = 12
NFNL_SUBSYS_NFTABLES = 10 << 8
GETCHAIN, GETRULE = 4, 7
HEAD = struct.Struct("=BBH")
CHAIN_TABLE, CHAIN_NAME, CHAIN_HOOK, CHAIN_POLICY = 1, 3, 4, 5
HOOK_NUMBER = 1
RULE_TABLE, RULE_CHAIN, RULE_EXPRESSIONS = 1, 2, 4
EXPR_NAME, EXPR_DATA = 1, 2
COUNTER_PACKETS = 2
IMMEDIATE_DATA, DATA_VERDICT, VERDICT_CODE = 2, 2, 1
NF_DROP, NF_ACCEPT = 0, 1
FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
HOOKS = {0: "prerouting", 1: "input", 2: "forward", 3: "output", 4: "postrouting"}


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain; ``hook`` is empty for one that is only jumped to."""

    where: str
    hook: str = ""
    drops: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """What the rules of one chain that drop or reject have counted so far."""

    where: str
    packets: int


def chains() -> tuple[Chain, ...]:
    """Return all chains; raises OSError, Malformed and :class:`~linkhold.model.HostError`."""
    return tuple(_chain(raw) for raw in _dumped(GETCHAIN))


def dropped() -> dict[str, int]:
    """Return how many packets the dropping rules of each chain have counted, by chain."""
    found: dict[str, int] = {}
    for raw in _dumped(GETRULE):
        rule = _rule(raw)
        if rule is not None:
            found[rule.where] = found.get(rule.where, 0) + rule.packets
    return found


def _dumped(kind: int) -> list[bytes]:
    body = HEAD.pack(socket.AF_UNSPEC, 0, 0)
    with Exchange(NETLINK_NETFILTER, "nf_tables") as kernel:
        return [
            raw for raw in kernel.dump(NFNL_SUBSYS_NFTABLES | kind, body) if len(raw) >= HEAD.size
        ]


def _chain(raw: bytes) -> Chain:
    found = attributes(raw, HEAD.size, len(raw))
    where = _where(raw, found, CHAIN_TABLE, CHAIN_NAME)
    if CHAIN_HOOK not in found:
        return Chain(where)
    hook = attributes(raw, *found[CHAIN_HOOK])
    number = _be(raw, hook[HOOK_NUMBER]) if HOOK_NUMBER in hook else -1
    policy = _be(raw, found[CHAIN_POLICY]) if CHAIN_POLICY in found else NF_ACCEPT
    return Chain(where, HOOKS.get(number, str(number)), policy == NF_DROP)


def _rule(raw: bytes) -> Dropped | None:
    found = attributes(raw, HEAD.size, len(raw))
    if RULE_EXPRESSIONS not in found:
        return None
    packets, drops = None, False
    for name, span in _expressions(raw, found[RULE_EXPRESSIONS]):
        if name == "counter":
            inner = attributes(raw, *span)
            packets = _be(raw, inner[COUNTER_PACKETS]) if COUNTER_PACKETS in inner else None
        elif name == "reject" or (name == "immediate" and _is_drop(raw, span)):
            drops = True
    if not drops or packets is None:
        return None
    return Dropped(_where(raw, found, RULE_TABLE, RULE_CHAIN), packets)


def _expressions(raw: bytes, span: Span) -> Iterator[tuple[str, Span]]:
    for _, element in each(raw, *span):
        found = attributes(raw, *element)
        if EXPR_NAME in found:
            yield _text(raw, found[EXPR_NAME]), found.get(EXPR_DATA, (0, 0))


def _is_drop(raw: bytes, span: Span) -> bool:
    place = span
    for kind in (IMMEDIATE_DATA, DATA_VERDICT):
        inner = attributes(raw, *place)
        if kind not in inner:
            return False
        place = inner[kind]
    code = attributes(raw, *place).get(VERDICT_CODE)
    return code is not None and _be(raw, code) == NF_DROP


def _where(raw: bytes, found: dict[int, Span], table: int, chain: int) -> str:
    family = FAMILIES.get(raw[0], str(raw[0]))
    names = (_text(raw, found[kind]) for kind in (table, chain) if kind in found)
    return " ".join((family, *names))


def _be(raw: bytes, span: Span) -> int:
    return int.from_bytes(raw[span[0] : span[1]], "big")


def _text(raw: bytes, span: Span) -> str:
    return raw[span[0] : span[1]].partition(b"\0")[0].decode("utf-8", "backslashreplace")
