"""One interface and what stands in the way of making it a member of a bond.

Read from sysfs (Documentation/ABI/testing/sysfs-class-net; ``upper_*`` and ``lower_*`` are made by
netdev_adjacent_sysfs_add) and, for what that does not show, from netlink. An interface that was
moved to another network namespace is no upper here: a macvlan of a container is not seen.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from linkhold.model.survey import Nic, Upper
from linkhold.survey import cloud

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.survey.files import Reader
    from linkhold.survey.links import LinkFacts

NET = "/sys/class/net"
ARPHRD_INFINIBAND = 32
IFF_UP = 0x1
NETVSC = "hv_netvsc"


def index_of(reader: Reader, name: str) -> int | None:
    """Return the index of an interface; None when there is none of this name."""
    return _number(reader, name, "ifindex")


def look(reader: Reader, name: str, links: Mapping[str, LinkFacts] | None) -> Nic | None:
    """Return what is known of an interface; None when there is none of this name.

    ``links`` is what netlink says of all of them; None when it could not be asked.
    """
    index = index_of(reader, name)
    if index is None:
        return None
    before = len(reader.problems)
    nic = _with_netlink(_from_sysfs(reader, name, index), links)
    nic = replace(
        nic,
        uppers=_uppers(reader, name, links),
        rdma=tuple(reader.names(f"{NET}/{name}/device/infiniband")),
        netvsc_partner=_netvsc_partner(reader, nic),
        cloud=cloud.look(reader, nic),
    )
    return replace(nic, unknown=(*nic.unknown, *reader.problems[before:]))


def _from_sysfs(reader: Reader, name: str, index: int) -> Nic:
    hw_type = _number(reader, name, "type") or 0
    flags = _number(reader, name, "flags") or 0
    carrier = reader.line(f"{NET}/{name}/carrier")  # EINVAL while administratively down
    return Nic(
        name=name,
        index=index,
        hw_type=hw_type,
        driver=_driver(reader, name),
        bus_path=_base(reader.link(f"{NET}/{name}/device")),
        mac=reader.line(f"{NET}/{name}/address"),
        perm_mac=reader.line(f"{NET}/{name}/bonding_slave/perm_hwaddr"),
        mtu=_number(reader, name, "mtu") or 0,
        admin_up=bool(flags & IFF_UP),
        carrier=carrier == "1" if carrier else None,
        virtual=not reader.exists(f"{NET}/{name}/device"),
        vf=reader.exists(f"{NET}/{name}/device/physfn"),
        physfn=_base(reader.link(f"{NET}/{name}/device/physfn")),
        ipoib=hw_type == ARPHRD_INFINIBAND,
        wireless=_wireless(reader, name),
    )


def _wireless(reader: Reader, name: str) -> bool:
    marks = (f"{NET}/{name}/wireless", f"{NET}/{name}/phy80211")
    return any(map(reader.exists, marks)) or _devtype(reader, name) == "wlan"


def _with_netlink(nic: Nic, links: Mapping[str, LinkFacts] | None) -> Nic:
    """Return the NIC with what netlink adds, or with the reason why it adds nothing."""
    facts = None if links is None else links.get(nic.name)
    if facts is None:
        return replace(nic, unknown=("netlink tells nothing of it: XDP and kind are not known",))
    if facts.index != nic.index:
        return replace(nic, unknown=("/sys shows another network namespace than ours",))
    perm = nic.perm_mac or facts.perm_mac
    return replace(nic, kind=facts.kind, perm_mac=perm, xdp=facts.xdp)


def _uppers(reader: Reader, name: str, links: Mapping[str, LinkFacts] | None) -> tuple[Upper, ...]:
    """Return what is on top of an interface, its master first.

    Tunnels that are bound to it (``dev eth0``) have no place in sysfs: only netlink tells.
    """
    master = _base(reader.link(f"{NET}/{name}/master"))
    names = [n.removeprefix("upper_") for n in reader.names(f"{NET}/{name}") if _is_upper(n)]
    names = list(dict.fromkeys([*([master] if master else []), *names, *_bound(name, links)]))
    return tuple(Upper(n, _kind(reader, n, links), n == master) for n in names)


def _bound(name: str, links: Mapping[str, LinkFacts] | None) -> list[str]:
    known = links or {}
    index = known[name].index if name in known else 0
    return [other for other, facts in known.items() if index and facts.lower == index]


def _is_upper(entry: str) -> bool:
    return entry.startswith("upper_")


def _kind(reader: Reader, name: str, links: Mapping[str, LinkFacts] | None) -> str:
    facts = None if links is None else links.get(name)
    if facts is not None and facts.kind:
        return facts.kind
    if _driver(reader, name) == NETVSC:
        return "netvsc"
    for folder, kind in (("bonding", "bond"), ("bridge", "bridge")):
        if reader.exists(f"{NET}/{name}/{folder}"):
            return kind
    if reader.exists(f"/proc/net/vlan/{name}"):
        return "vlan"
    return _devtype(reader, name) or "unknown"


def _netvsc_partner(reader: Reader, nic: Nic) -> str:
    """Return the other half of a Hyper-V pair; empty for none.

    netvsc_vf_join makes the netvsc the VF's master; while the VF comes or goes only the equal
    MAC addresses tell (netvsc_drv.c, get_netvsc_byslot and its fallback).
    """
    lowers = [n.removeprefix("lower_") for n in reader.names(f"{NET}/{nic.name}") if _lower(n)]
    if nic.driver == NETVSC and lowers:
        return lowers[0]
    master = _base(reader.link(f"{NET}/{nic.name}/master"))
    if master and _driver(reader, master) == NETVSC:
        return master
    if nic.virtual or not nic.mac:
        return ""
    return next((other for other in reader.names(NET) if _is_half(reader, nic, other)), "")


def _is_half(reader: Reader, nic: Nic, other: str) -> bool:
    same = other != nic.name and reader.line(f"{NET}/{other}/address") == nic.mac
    real = same and not _is_virtual(reader, other)
    return real and NETVSC in (nic.driver, _driver(reader, other))


def _lower(entry: str) -> bool:
    return entry.startswith("lower_")


def _is_virtual(reader: Reader, name: str) -> bool:
    return not reader.exists(f"{NET}/{name}/device")


def _driver(reader: Reader, name: str) -> str:
    return _base(reader.link(f"{NET}/{name}/device/driver"))


def _devtype(reader: Reader, name: str) -> str:
    lines = reader.line(f"{NET}/{name}/uevent").splitlines()
    return next((line[8:] for line in lines if line.startswith("DEVTYPE=")), "")


def _number(reader: Reader, name: str, attribute: str) -> int | None:
    text = reader.line(f"{NET}/{name}/{attribute}")
    try:
        return int(text, 0)
    except ValueError:
        return None


def _base(path: str) -> str:
    return PurePosixPath(path).name
