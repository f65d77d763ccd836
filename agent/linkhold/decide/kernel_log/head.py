"""Who speaks in a line: driver, bus, interface, and the text that is left.

The kernel puts ``driver bus interface (state): `` in front of what a NIC's driver prints
(netdev_printk, __netdev_printk in net/core/dev.c), ``driver bus: `` before an interface exists
(dev_printk), and ``interface: `` for devices without a parent. Older drivers and qlogic's have
ways of their own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from linkhold.decide.kernel_log.families import TABLES

_PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
ADDRESS = re.compile(rf"(?<![\w:.]){_PCI}(?![\w:])")
_NAME = r"[^\s:/()\[\]]{1,15}"
_STATES = r"(?: \([a-zA-Z_ ]{1,24}\)){0,3}"
_STANDARD = re.compile(
    rf"(?P<driver>[A-Za-z][\w.+-]{{0,39}}) "
    r"(?P<bus>(?=\S*[.:@-]\S)[\w.,:@+-]{1,64}?|virtio\d+|netdevsim\d+|[0-9a-f]{6,8})"
    rf"(?: (?P<name>{_NAME}))?{_STATES}"
)
_COLON = re.compile(r":(?:\s+|$)")
_DRIVER = re.compile(r"(?P<driver>[A-Za-z][\w+-]{0,39}):\s+(?P<text>.*)", re.DOTALL)
_BRACKETS = re.compile(
    r"(?:(?P<driver>[a-z]\w{1,15}): )?\[(?P<function>[a-z]\w{1,63}):\d{1,6}"
    r"\((?P<name>[^()\s]{0,63})\)\]\s?(?P<text>.*)",
    re.DOTALL,
)
_PLACE = re.compile(r"[a-z]\w{1,63}:\d{1,6}:(?:\(pid \d+\): ?| )", re.ASCII)
_REPEATED = re.compile(rf"({_NAME})(?::\s+|\s+)")
_TASK = re.compile(r"[a-z0-9]+_watchdog(?:_task)?: ")
_PLAIN = re.compile(rf"(?P<name>{_NAME}){_STATES}:\s+(?P<text>.*)", re.DOTALL)
_INFINIBAND = re.compile(r"infiniband (?P<name>[\w-]{1,63}): (?P<text>.*)", re.DOTALL)
_RDMA = frozenset({"efa", "irdma", "i40iw", "bnxt_re", "mlx5_ib", "mlx4_ib", "qedr", "erdma"})
FRONT_CHARACTERS = 208
"""Driver, bus, interface and states at their longest."""
SPEAKERS_MOST = 1024
"""Beginnings of lines that are remembered; a host has some hundred functions of NICs at most."""
_WIRED = re.compile(r"(?:eth|en|em|ib|p\d+p|net|usb|lan|wan|sfp|swp|s\d+p|bond|thunderbolt)")
_VIRTUAL = re.compile(
    r"(?:lo$|wl|veth|docker|br-|virbr|tun|tap|vnet|dummy|cali|flannel|cni|wg|tailscale|ifb|vif\d"
    r"|kube|nodelocal|lxc|lxd|ovs|podman|ppp|ww|gre|sit|macvt)"
)


class Head(NamedTuple):
    """Who speaks. Unknown parts are empty; ``known`` when the driver has a table."""

    driver: str
    address: str
    interface: str
    text: str
    known: bool
    located: bool
    """Whether the line names driver, bus and interface: the form of netdev_printk."""


@lru_cache(maxsize=SPEAKERS_MOST)
def is_foreign(name: str) -> bool:
    """Whether this is a wireless or purely virtual interface, which are nobody's concern here."""
    return _VIRTUAL.match(name) is not None


@lru_cache(maxsize=SPEAKERS_MOST)
def is_wired(name: str) -> bool:
    """Whether a name looks like a wired NIC's, where nothing else tells."""
    return _WIRED.match(name) is not None and not is_foreign(name)


class Speaker(NamedTuple):
    """What stands before the text in the standard form; ``repeats`` is what some say once more."""

    driver: str
    address: str
    name: str
    interface: str
    known: bool
    repeats: tuple[str, ...]


def parse(message: str) -> Head | None:
    """Return who speaks in a message without the prefixes of log files, None if nobody does."""
    front, colon, text = message.partition(": ")
    if not colon or "\t" in front:  # nothing after it, or another space
        front, _, text = _COLON.sub(": ", message, count=1).partition(": ")
    who = speaker(front) if len(front) <= FRONT_CHARACTERS and front != message else None
    if who is not None:
        return _standard(who, text.lstrip())
    found = _BRACKETS.match(message)
    if found is not None:
        return _bracketed(found)
    found = _INFINIBAND.match(message)
    if found is not None:
        kind = found["name"].partition("_")[0]
        driver = f"{kind}_ib" if f"{kind}_ib" in TABLES else "infiniband"
        return Head(driver, "", "", _without_place(found["text"]), driver in TABLES, False)
    found = _DRIVER.match(message)
    if found is not None and found["driver"] in TABLES:
        return _old(found["driver"], "", found["text"])
    found = _PLAIN.match(message)
    if found is not None:
        return Head("", "", found["name"], found["text"].lstrip(), False, False)
    return None


@lru_cache(maxsize=SPEAKERS_MOST)
def speaker(front: str) -> Speaker | None:
    """Return who speaks by what stands before the first colon, None in another form.

    A host has few NICs, and in a flood each line begins as the one before.
    """
    found = _STANDARD.fullmatch(front)
    if found is None:
        return None
    driver, bus, name = found["driver"], found["bus"], found["name"] or ""
    address = bus if ADDRESS.fullmatch(bus) else ""
    interface = "" if driver in _RDMA else name
    repeats = _repeats(driver, name)
    return Speaker(driver, address, name, interface, driver in TABLES, repeats)


def _standard(who: Speaker, text: str) -> Head:
    if who.name:
        rest = _without_repeats(_without_place(text), who.repeats)
        return Head(who.driver, who.address, who.interface, rest, who.known, True)
    if who.known:
        return _old(who.driver, who.address, text)
    return Head(who.driver, who.address, "", text, False, False)


def _old(driver: str, address: str, text: str) -> Head:
    """Take the interface from the start of the text: ``e1000e 0000:01:00.0: eth0: ...``."""
    rest = _without_place(_without_repeats(text, _repeats(driver, "")))
    bus = ADDRESS.match(rest)
    if bus is not None and rest[bus.end() : bus.end() + 1] in {":", " "}:
        address, rest = bus[0], rest[bus.end() + 1 :].lstrip()
    name = _REPEATED.match(rest)
    interface = ""
    if name is not None and _is_name(name[1], colon=":" in name[0]):
        interface, rest = name[1], rest[name.end() :].lstrip()
        rest = _TASK.sub("", rest, count=1) if "_watchdog" in rest else rest
    return Head(driver, address, "" if driver in _RDMA else interface, rest, True, bool(interface))


def _is_name(word: str, *, colon: bool) -> bool:
    if not colon:
        return _WIRED.match(word) is not None and word[-1].isdigit()
    return is_wired(word) or (word[-1].isdigit() and word not in TABLES and not word.isdigit())


def _bracketed(found: re.Match[str]) -> Head:
    prefix = found["function"].partition("_")[0]
    driver = found["driver"] or (prefix if prefix in TABLES else "")
    name = found["name"].rpartition(":")[2]
    interface = name if re.fullmatch(_NAME, name) and not name[0].isdigit() else ""
    bus = ADDRESS.search(found["name"])
    return Head(
        driver, "" if bus is None else bus[0], interface, found["text"], driver in TABLES, True
    )


def _without_place(text: str) -> str:
    """Cut ``function:line:(pid N): ``, which mlx5_core_err and _warn put in front."""
    place = _PLACE.match(text) if ":" in text else None
    return text if place is None else text[place.end() :]


def _repeats(driver: str, name: str) -> tuple[str, ...]:
    return (f"{driver}: ", f"{name}: ", f"{name} ") if name else (f"{driver}: ",)


def _without_repeats(text: str, repeats: tuple[str, ...]) -> str:
    """Cut driver and interface that a driver says once more: ``igb: eth1 NIC Link is Down``."""
    for word in repeats if text.startswith(repeats) else ():
        text = text.removeprefix(word)
    return text.lstrip()
