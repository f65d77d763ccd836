"""The options of a bond as rtnetlink carries them: numbers, types and reading.

Numbers and types are those of IFLA_BOND_* in linux/if_link.h (Linux 6.12). pyroute2's table ends
at 27 and drops what it does not know without a word, so linkhold goes by this one.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from linkhold.rtnl import attributes as nla
from linkhold.rtnl.framing import Malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

MODE_ACTIVE_BACKUP = 1
SELECT_ALWAYS, SELECT_BETTER, SELECT_FAILURE = 0, 1, 2

# name -> (number, type); a type is u8, u32, ip4s (nested be32) or ip6s (nested in6).
OPTIONS: Mapping[str, tuple[int, str]] = {
    "mode": (1, "u8"),
    "active_slave": (2, "u32"),
    "miimon": (3, "u32"),
    "updelay": (4, "u32"),
    "downdelay": (5, "u32"),
    "use_carrier": (6, "u8"),
    "arp_interval": (7, "u32"),
    "arp_ip_target": (8, "ip4s"),
    "arp_validate": (9, "u32"),
    "arp_all_targets": (10, "u32"),
    "primary": (11, "u32"),
    "primary_reselect": (12, "u8"),
    "fail_over_mac": (13, "u8"),
    "xmit_hash_policy": (14, "u8"),
    "resend_igmp": (15, "u32"),
    "num_peer_notif": (16, "u8"),
    "all_slaves_active": (17, "u8"),
    "min_links": (18, "u32"),
    "lp_interval": (19, "u32"),
    "packets_per_slave": (20, "u32"),
    "tlb_dynamic_lb": (27, "u8"),
    "peer_notif_delay": (28, "u32"),
    "missed_max": (30, "u8"),
    "ns_ip6_target": (31, "ip6s"),
}
PORT_OPTIONS: Mapping[str, tuple[int, str]] = {
    "state": (1, "u8"),
    "mii_status": (2, "u8"),
    "link_failure_count": (3, "u32"),
    "perm_hwaddr": (4, "mac"),
    "queue_id": (5, "u16"),
    "prio": (9, "s32"),
}

_PLAIN = {"u8": "=B", "u16": "=H", "u32": "=I", "s32": "=i"}
_FAMILY = {"ip4s": socket.AF_INET, "ip6s": socket.AF_INET6}


def decode(data: bytes, span: nla.Span, table: Mapping[str, tuple[int, str]]) -> dict[str, object]:
    """Return the options that a nested attribute holds, by name; unknown ones are left out."""
    found = nla.attributes(data, *span)
    return {
        name: _value(data, found[number], kind)
        for name, (number, kind) in table.items()
        if number in found
    }


def _value(data: bytes, span: nla.Span, kind: str) -> object:
    raw = data[span[0] : span[1]]
    if kind in _PLAIN:
        if len(raw) != struct.calcsize(_PLAIN[kind]):
            raise Malformed("an option of a bond has a wrong size")
        return struct.unpack(_PLAIN[kind], raw)[0]
    if kind == "mac":
        return raw.hex(":")
    inner = nla.attributes(data, *span)
    try:
        return tuple(
            socket.inet_ntop(_FAMILY[kind], data[a:b]) for _, (a, b) in sorted(inner.items())
        )
    except ValueError as error:
        raise Malformed("a target of a bond is no address") from error
