"""What one message of the kernel says of a NIC: the order in which forms and tables are asked."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from linkhold.decide.kernel_log import bonding, common, head, lockup, mellanox, pcie
from linkhold.decide.kernel_log import rules as r
from linkhold.decide.kernel_log.families import TABLES
from linkhold.model.kernel_log import Finding, PciView

if TYPE_CHECKING:
    from linkhold.decide.kernel_log.head import Head
    from linkhold.decide.kernel_log.rules import Rule

TEXT_CHARACTERS = 2048
"""The kernel's own limit is 1024 (LOG_LINE_MAX); no pattern needs more of a line."""
CACHED = 2048
"""Messages that are remembered: in a flood the same ones come again and again."""

NONE = Finding()
PORT = r.Search(*pcie.TABLE, *common.BANDWIDTH)
GENERIC, PLAIN = r.Search(*common.GENERIC), r.Search(*common.PLAIN)
IPOIB = r.Search(*mellanox.IPOIB)
NO_VIEW = PciView()
PORTS = frozenset({"pcieport", "pci", "vfio-pci"})
SPEAKERS = frozenset({*TABLES, *PORTS, "infiniband"})
NEEDLES = (
    "ink ", "slave", "interface", "WATCHDOG", "imeout", "imed out", "lockup", "_poll", ")]",
    "802.3ad", "to get speed", "c_arp", "to become free", "eset adapter", "esetting", "x hang",
    "arrier o", "multicast join", "failed send", "failed cm send", "tx_head",
)  # fmt: skip
"""What lines that count have in common when no known driver is the first word."""

_WATCHDOG = re.compile(
    r"NETDEV WATCHDOG: (?P<name>[^\s:()]{1,15}):? \(?(?P<driver>[\w.+-]*)\)?:? ?"
    r"(?=.*\btimed out)",
    re.DOTALL,
)
_PROBE = re.compile(r"(?P<driver>[\w.+-]{1,40}): probe of (?P<bus>\S{1,64}) failed with error")
_BECOMES = re.compile(r"(?:IPv6: )?ADDRCONF\(NETDEV_CHANGE\): (\S{1,15}): link becomes ready")
_WAITING = re.compile(r"unregister_netdevice: waiting for (\S{1,15}) to become free")
_SENDER = re.compile(rf"received(?: from)?:? ({head.ADDRESS.pattern})")
_PCI_DEVICE = re.compile(r"\+pci:(\S+)")


def classify(message: str, device: str = "", pci: PciView = NO_VIEW) -> Finding:
    """Return what a message of the kernel says of a NIC.

    ``message`` is without the prefixes of log files (:mod:`.formats`), ``device`` the record's
    ``DEVICE=`` where there is one. With the ``pci`` of this host, faults of ports above NICs
    count and an address becomes an interface; without it only lines of NIC drivers count.
    """
    if not worth(message):
        return NONE
    text = message[:TEXT_CHARACTERS].strip()
    finding = _judge(text)
    if finding is None:
        finding = _port(text, pci)
    return _placed(finding, device, pci)


def worth(message: str) -> bool:
    """Whether a message may say something of a NIC: quick, and never wrong with a no."""
    word = message.lstrip().partition(" ")[0].rstrip(":")
    return word in SPEAKERS or any(map(message.__contains__, NEEDLES))


def forget() -> None:
    """Forget the messages that are remembered, so that a measurement starts anew."""
    for remembered in (_judge, _finding, head.speaker):
        remembered.cache_clear()
    r.forget()


@lru_cache(maxsize=CACHED)
def _judge(text: str) -> Finding | None:
    """Return what a text says wherever it was read; None when the host's PCI tree decides."""
    special = _special(text)
    if special is not None:
        return special
    who = head.parse(text)
    if who is None or head.is_foreign(who.interface):
        return NONE
    if who.known:
        return _driver_says(who)
    if who.located and who.driver:
        return _found(who, GENERIC.first(who.text.lower()))
    if not who.driver:
        return _plain_says(text, who)
    return None


def _special(text: str) -> Finding | None:
    """Judge the lines that have a form of their own."""
    if "WATCHDOG" in text:
        found = _WATCHDOG.match(text)
        if found is not None:
            return _watchdog(found)
    if "probe of " in text:
        found = _PROBE.match(text)
        if found is not None:
            return _probe(found)
    if "ink becomes" in text or "unregister_netdevice" in text:
        return _core(text)
    return lockup.marked(text)


def _watchdog(found: re.Match[str]) -> Finding:
    name, driver = found["name"], found["driver"]
    if head.is_foreign(name):
        return NONE
    rule = common.QUEUES[0]
    outcome = rule.outcome
    driver = "" if driver in {"transmit", "CPU"} else driver
    return Finding(
        outcome.cls, name, driver, severity=outcome.severity, why=rule.why,
        ends_link=outcome.ends_link,
    )  # fmt: skip


def _probe(found: re.Match[str]) -> Finding:
    if found["driver"] not in TABLES:
        return NONE
    address = found["bus"] if head.ADDRESS.fullmatch(found["bus"]) else ""
    who = head.Head(found["driver"], address, "", "", known=True, located=False)
    return _found(who, common.PROBES[0])


def _core(text: str) -> Finding:
    found = _BECOMES.match(text)
    if found is not None and head.is_wired(found[1]):
        return Finding(
            r.LINK_UP.cls, found[1], severity=r.LINK_UP.severity,
            why="ipv6: link becomes ready (carrier gained)", ends_link=r.LINK_UP.ends_link,
        )  # fmt: skip
    found = _WAITING.match(text)
    if found is not None and head.is_wired(found[1]):
        return Finding(
            r.DEGRADED_ERROR.cls, found[1], severity=r.DEGRADED_ERROR.severity,
            why="net core: unregister_netdevice waits (an interface cannot be removed)",
        )  # fmt: skip
    return NONE


def _driver_says(who: Head) -> Finding:
    return _found(who, TABLES[who.driver].first(who.text.lower()))


def _plain_says(text: str, who: Head) -> Finding:
    said = bonding.classify(text)
    if said is not None:
        return said
    if not head.is_wired(who.interface):
        return NONE
    low = who.text.lower()
    if who.interface.startswith("ib"):
        rule = IPOIB.first(low)
        if rule is not None:
            return replace(_found(who, rule), driver="ib_ipoib")
    return _found(who, PLAIN.first(low))


def _port(text: str, pci: PciView) -> Finding:
    """Judge a line of a PCI port or of a card that is no NIC: it counts above a NIC only."""
    who = head.parse(text)
    rule = None if who is None else PORT.first(who.text.lower())
    if who is None or rule is None:
        return NONE
    # A root port reports what a device below it sent; other addresses are told by the way.
    sender = _SENDER.search(who.text)
    address = who.address if sender is None else sender[1]
    if not pci.below(address):
        return replace(NONE, why=f"{rule.why}: {address or 'it'} is no NIC and no port above one")
    return _found(who._replace(address=address), rule)


def _found(who: Head, rule: Rule | None) -> Finding:
    return NONE if rule is None else _finding(rule, _interface(who), who.driver, who.address)


@lru_cache(maxsize=CACHED)
def _finding(rule: Rule, interface: str, driver: str, address: str) -> Finding:
    """Return what a rule says of a NIC: the same, however the rest of a line varies."""
    outcome = rule.outcome
    if outcome is r.NOTHING:
        return replace(NONE, why=rule.why)
    return Finding(
        outcome.cls, interface, driver, address,
        severity=outcome.severity, why=rule.why, ends_link=outcome.ends_link,
    )  # fmt: skip


_OF_VF = re.compile(r"VF (?:un)?registering: (\S{1,15})")


def _interface(who: Head) -> str:
    """Return the interface; a Hyper-V line about a VF means the VF, not the one that says it."""
    found = _OF_VF.match(who.text) if who.text.startswith("VF ") else None
    return who.interface if found is None else found[1]


def _placed(finding: Finding, device: str, pci: PciView) -> Finding:
    """Complete address and interface from DEVICE= and the host's PCI tree."""
    if finding.severity is NONE.severity:
        return finding
    address = finding.address
    if not address and device:
        found = _PCI_DEVICE.fullmatch(device)
        address = "" if found is None else found[1]
    interface = finding.interface
    below = pci.below(address) if address and not interface else ()
    if len(below) == 1:
        interface = below[0]
    if (address, interface) == (finding.address, finding.interface):
        return finding
    return replace(finding, address=address, interface=interface)
