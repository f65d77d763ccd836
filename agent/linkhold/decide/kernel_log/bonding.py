"""The bonding driver, with its names before and after Linux 5.3 (drivers/net/bonding).

New: ``bond0: (slave eth1): link status definitely down, disabling slave``. Old: ``bond0: link
status definitely down for interface eth1, disabling it``, with ``bonding: `` in front at first.
"""

from __future__ import annotations

import re

from linkhold.decide.kernel_log import rules as r
from linkhold.model.kernel_log import Finding, LineClass

_LINE = re.compile(
    r"(?:bonding: (?=[^\s:]+: ))?(?P<bond>[^\s:/()\[\]]{1,15})(?P<state> \([a-z]+\))?: "
    r"(?:\(slave (?P<slave>[^\s:/()]{1,15})\): )?(?P<text>.*)",
    re.DOTALL,
)
_MEMBER = re.compile(
    r"(?:\bfor (?:active |backup )?interface |\bmaking interface |\b(?:en|de)slaving "
    r"|\breleasing (?:active |backup )?interface |\bremoving slave |\badding slave "
    r"|\b(?:backup )?interface (?=\S+ is now )|\bfrom slave |\bduplex from "
    r"|\bhwaddr of (?:slave )?|\bloopback occurred on (?:slave|adapter) \(?)"
    r"(?!-)([^\s,:()]{1,15})",
    re.IGNORECASE,
)

_OF_MEMBER = r.Search(
    *r.group(
        "bonding", r.LINK_DOWN, "a member lost its link",
        "^link status definitely down", "^link status down", "^backup interface*is now down",
        "^interface*is now down", "^link status down again",
    ),
    *r.group(
        "bonding", r.LINK_UP, "a member has its link again",
        "^link status definitely up", "^link status up", "^backup interface*is now up",
        "^interface*is now up",
    ),
    *r.group(
        "bonding", r.DEGRADED_ERROR, "the bond cannot see the link of this member",
        "can't get link status from", "does not support mii or ethtool link status",
    ),
    *r.group(
        "bonding", r.DEGRADED, "a member does not take part",
        "^failed to get link speed", "failed to get speed and duplex",
        "^an illegal loopback occurred", "did not find a suitable aggregator",
        "speed changed to 0",
    ),
    *r.group(
        "bonding", r.CONFIG_WARNING, "two interfaces may send with the same MAC",
        "permanent hwaddr of*is still in use",
    ),
    *r.group(
        "bonding", r.CONFIG, "an interface joins or leaves",
        "^enslaving", "^releasing", "^removing slave", "^adding slave",
    ),
)  # fmt: skip

_OF_BOND = r.Search(
    *r.group(
        "bonding", r.BOND_DOWN, "no member carries", "^now running without any active interface"
    ),
    *r.group(
        "bonding", r.BOND_UP, "a member carries again", "^first active interface up",
        "^active interface up",
    ),
    *r.group(
        "bonding", r.BOND_FAILOVER, "another member carries",
        "^making interface*the new active one", "^making interface the new active one",
    ),
    *r.group(
        "bonding", r.DEGRADED, "the switch does not answer LACP",
        "no 802.3ad response from the link partner",
    ),
    *r.group("bonding", r.DEGRADED, "the ARP monitor contradicts itself", "^probe: c_arp * bad"),
    *r.group("bonding", r.CONFIG, "the bond is taken apart", "^released all slaves"),
)  # fmt: skip


def classify(text: str) -> Finding | None:
    """Return what a line of the bonding driver says; None for what is none of its lines."""
    line = _LINE.match(text)
    if line is None:
        return None
    low = line["text"].lower()
    rule = _OF_BOND.first(low)
    member = ""
    if rule is None:
        rule = _OF_MEMBER.first(low)
        member = line["slave"] or _named(line["text"])
        if rule is None or not member:
            return None
    # Whoever deletes a bond means the bond, not one member of it.
    unmade = line["state"] == " (unregistering)" and rule.outcome.cls is LineClass.CONFIG
    outcome = rule.outcome
    return Finding(
        outcome.cls,
        line["bond"] if unmade or not member else member,
        "bonding",
        severity=outcome.severity,
        why=rule.why,
        ends_link=outcome.ends_link,
        bond=line["bond"],
    )


def _named(text: str) -> str:
    found = _MEMBER.search(text)
    return "" if found is None else found[1].rstrip(".")
