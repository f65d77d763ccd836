"""Bonds: who carries, what is lost, and what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bond_paths import ENOUGH_FOR_REDUNDANCY, idle, is_watched, with_paths
from linkhold.decide.happening import Happening
from linkhold.model import BondMember, BondPaths, BondView, HostNetwork, Link, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

MODES = (
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
)


def views(host: HostNetwork, paths: tuple[BondPaths, ...] = ()) -> tuple[BondView, ...]:
    """Return every bond of the host with its members, ordered by name.

    ``paths`` is what probes say of them.
    """
    probed = {one.bond: one for one in paths}
    bonds = (link for link in host.links.values() if link.bond is not None)
    return tuple(
        with_paths(_view(host, link), probed.get(link.name))
        for link in sorted(bonds, key=lambda link: link.name)
    )


def _view(host: HostNetwork, link: Link) -> BondView:
    options = link.bond
    assert options is not None  # noqa: S101 - views() selects by it
    members = tuple(_member(port) for port in host.ports_of(link.index))
    active = host.links.get(options.active) if options.active else None
    good = sum(member.good for member in members)
    return BondView(
        name=link.name,
        index=link.index,
        mode=MODES[options.mode] if options.mode < len(MODES) else str(options.mode),
        carrier=link.usable and good > 0 and not idle(host, link),
        active=active.name if active else None,
        members=members,
        monitored=options.monitored,
        redundant=is_watched(options) and good >= ENOUGH_FOR_REDUNDANCY,
    )


def _member(port: Link) -> BondMember:
    mii = port.port.mii if port.port else "unknown"
    return BondMember(
        name=port.name,
        good=port.usable and mii == "up",
        carrier=port.carrier,
        mii=mii,
        failures=port.port.link_failures if port.port else 0,
    )


def first_sight(bonds: tuple[BondView, ...]) -> list[Happening]:
    """Return one happening for each bond at first sight."""
    found = []
    for bond in bonds:
        kind = "bond.down" if not bond.carrier else "bond.degraded" if bond.lost else "bond.up"
        found.append(Happening(kind, bond.name, {**_summary(bond, kind), "initial": True}))
    return found


def compare(before: tuple[BondView, ...], after: tuple[BondView, ...]) -> list[Happening]:
    """Return what happened to bonds between two looks."""
    old_by_index = {bond.index: bond for bond in before}
    found: list[Happening] = []
    for bond in after:
        old = old_by_index.get(bond.index)
        if old is None:
            kind = "bond.up" if bond.carrier else "bond.down"
            found.append(Happening(kind, bond.name, _summary(bond, kind)))
            old = bond
        if old != bond:
            found += _changed(old, bond)
    return found


def _changed(old: BondView, new: BondView) -> Iterator[Happening]:
    old_names, new_names = ({m.name for m in bond.members} for bond in (old, new))
    for name in sorted(new_names - old_names):
        yield Happening("bond.member_added", new.name, {"member": name})
    for name in sorted(old_names - new_names):
        yield Happening("bond.member_removed", new.name, {"member": name}, Severity.WARNING)
    if old.active and new.active and old.active != new.active:
        data = {"previous": old.active, "active": new.active}
        yield Happening("bond.failover", new.name, data, Severity.WARNING)
    yield from _carrying(old, new)


def _carrying(old: BondView, new: BondView) -> Iterator[Happening]:
    if old.carrier and not new.carrier:
        yield Happening("bond.down", new.name, _summary(new, "bond.down"), Severity.CRITICAL)
        return
    if new.carrier and not old.carrier:
        yield Happening("bond.up", new.name, _summary(new, "bond.up"))
    if not new.carrier:
        return
    if new.lost and (not old.carrier or set(new.lost) - set(old.lost)):
        yield Happening("bond.degraded", new.name, _summary(new, "bond.degraded"), Severity.WARNING)
    elif old.carrier and old.lost and not new.lost:
        yield Happening("bond.restored", new.name, _summary(new, "bond.restored"))


def _summary(bond: BondView, kind: str) -> dict[str, object]:
    data: dict[str, object] = {"members": [member.name for member in bond.members]}
    if kind != "bond.down":
        data["active"] = bond.active
    if kind == "bond.degraded":
        data["lost"] = list(bond.lost)
    return data
