"""Other programs that configure interfaces: DHCP clients of their own, wicked, ConnMan.

Sources: dhclient(8), dhcpcd(8) and dhcpcd.conf(5), udhcpc of busybox, wicked(8) with ifcfg(5),
connman.conf(5).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from linkhold.model.survey import Owner, OwnerKind
from linkhold.survey.files import pairs, sections

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.survey.files import Reader
    from linkhold.survey.processes import Process

DHCLIENTS = frozenset({"dhclient", "udhcpc"})
COMMS = DHCLIENTS | {"dhcpcd", "wickedd", "connmand"}
DHCPCD_PIDS = ("/run/dhcpcd/{}.pid", "/run/dhcpcd-{}.pid", "/run/dhcpcd/{}-4.pid")
CONNMAN_LEAVES = ("vmnet", "vboxnet", "virbr", "ifb", "ve-", "vb-")


def dhclient(programs: Iterable[Process], name: str) -> Owner | None:
    """Return the claim of a dhclient or udhcpc that runs for this interface by itself.

    NetworkManager may run dhclient as its helper; it then works for NetworkManager.
    """
    found = [
        program
        for program in programs
        if program.comm in DHCLIENTS
        and name in program.words
        and not any("NetworkManager" in word for word in program.words)
    ]
    if not found:
        return None
    seen = tuple(f"process {program.pid}: {' '.join(program.words)}" for program in found)
    pids = tuple(program.pid for program in found)
    return Owner(OwnerKind.DHCLIENT, name, evidence=seen, dhcp=True, pids=pids)


def dhcpcd(reader: Reader, programs: Iterable[Process], name: str) -> Owner | None:
    """Return dhcpcd's claim: one that runs for this interface, or for all that it may touch."""
    daemons = [program for program in programs if program.comm == "dhcpcd"]
    own = [p for p in daemons if _serves_only(reader, p, name)]
    if not daemons or (not own and not _dhcpcd_takes(reader, daemons, name)):
        return None
    shown = own or daemons[:1]
    conf = "/etc/dhcpcd.conf"
    text = reader.text(conf) or ""
    static = f"interface {name}" in text and "static ip_address" in text
    return Owner(
        OwnerKind.DHCPCD,
        name,
        evidence=tuple(f"process {p.pid}: {' '.join(p.words)}" for p in shown),
        profile_files=(conf,) if text else (),
        dhcp=None if static else True,
        pids=tuple(p.pid for p in own),
    )


def _serves_only(reader: Reader, program: Process, name: str) -> bool:
    """Its title is ``dhcpcd: eth0 [ip4]`` since 9, and it has a pid file of the interface."""
    if name in " ".join(program.words).split():
        return True
    files = (pattern.format(name) for pattern in DHCPCD_PIDS)
    return any(reader.line(file) == str(program.pid) for file in files)


def _dhcpcd_takes(reader: Reader, daemons: list[Process], name: str) -> bool:
    """Whether a manager of all interfaces runs, and its configuration leaves this one to it."""
    single = ("/run/dhcpcd/pid", "/run/dhcpcd.pid")
    pids = {reader.line(file) for file in single}
    titles = (" ".join(program.words) for program in daemons)
    if not any(str(p.pid) in pids for p in daemons) and not any("manager" in t for t in titles):
        return False
    allowed, denied = [], []
    for line in (reader.text("/etc/dhcpcd.conf") or "").splitlines():
        words = line.split()
        if words[:1] == ["denyinterfaces"]:
            denied += words[1:]
        elif words[:1] == ["allowinterfaces"]:
            allowed += words[1:]
    return not _any_match(denied, name) and (not allowed or _any_match(allowed, name))


def _any_match(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def wicked(reader: Reader, programs: Iterable[Process], name: str) -> Owner | None:
    """Return wicked's claim: it runs, and there is an ifcfg or XML file for the interface."""
    if not any(program.comm == "wickedd" for program in programs):
        return None
    ifcfg = f"/etc/sysconfig/network/ifcfg-{name}"
    words = dict(pairs(reader.text(ifcfg) or ""))
    files = [ifcfg] if words and words.get("STARTMODE", "").lower() != "off" else []
    files += [f for f in reader.files("/etc/wicked/ifconfig", ".xml") if _mentions(reader, f, name)]
    if not files:
        return None
    automatic = "dhcp" in words.get("BOOTPROTO", "").lower()
    return Owner(
        OwnerKind.WICKED,
        name,
        evidence=("wickedd runs", *files),
        profile_files=tuple(files),
        dhcp=automatic if ifcfg in files else None,
    )


def _mentions(reader: Reader, file: str, name: str) -> bool:
    return f"<name>{name}</name>" in (reader.text(file) or "")


def connman(reader: Reader, programs: Iterable[Process], name: str) -> Owner | None:
    """Return ConnMan's claim: it takes every interface that its blacklist does not name."""
    if not any(program.comm == "connmand" for program in programs):
        return None
    conf = "/etc/connman/main.conf"
    general = sections(reader.text(conf) or "").get("General", {})
    given = [w for value in general.get("NetworkInterfaceBlacklist", []) for w in value.split(",")]
    if name.startswith(tuple(w.strip() for w in given if w.strip()) or CONNMAN_LEAVES):
        return None
    return Owner(OwnerKind.CONNMAN, name, evidence=("connmand runs",), dhcp=None)
