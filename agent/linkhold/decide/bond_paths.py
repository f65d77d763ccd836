"""What probes say of bonds, in the state: paths of members, obstacles, events and flapping."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.debounce import flap_end_ns, is_flapping
from linkhold.decide.happening import Happening
from linkhold.model import (
    BondPaths,
    BondView,
    HostNetwork,
    Link,
    MemberPath,
    Moment,
    Severity,
    WayOut,
)
from linkhold.rtnl.bond import MODE_ACTIVE_BACKUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.config.settings import PolicySettings
    from linkhold.decide.readings import BondMoveReading
    from linkhold.model import BondOptions, NodeState

ENOUGH_FOR_REDUNDANCY = 2
SLOW_MS = 5000
"""Ten to a thousand is usual; above this the unit was mistaken (``MIIMonitorSec=100s``)."""
VLAN, BRIDGE = "vlan", "bridge"
Changes = dict[int, tuple[int, ...]]


def with_paths(view: BondView, paths: BondPaths | None) -> BondView:
    """Return a bond with what probes say of it."""
    if paths is None:
        return view
    known = {path.name: path for path in paths.members}
    members = tuple(
        replace(member, path=known[member.name].verdict, path_reason=known[member.name].reason)
        if member.name in known
        else member
        for member in view.members
    )
    seen = replace(
        view, members=members, silent=paths.silent, would=paths.would, locked=paths.locked
    )
    usable = sum(member.good for member in members) - len(seen.dead)
    return replace(seen, redundant=view.redundant and usable >= ENOUGH_FOR_REDUNDANCY)


def is_watched(options: BondOptions) -> bool:
    """Tell whether the kernel sees a lost member within five seconds."""
    slow_ms = max(options.miimon_ms, options.arp_interval_ms)
    return options.monitored and slow_ms <= SLOW_MS


def idle(host: HostNetwork, link: Link) -> str:
    """Return why a bond of a mode with one active member carries nothing; empty if it does.

    The kernel gives the bond carrier while its active member counts as up, which without link
    monitoring is for ever (``bond_set_carrier`` and ``bond_enslave`` of bond_main.c).
    """
    options = link.bond
    if options is None or options.mode != MODE_ACTIVE_BACKUP:
        return ""
    if not options.active:
        return f"{link.name} has no active member"
    active = host.links.get(options.active)
    if active is None or active.usable or is_watched(options):
        return ""
    return f"{active.name} has no link, and {link.name} does not leave it ({monitoring(options)})"


def monitoring(options: BondOptions) -> str:
    """Return in words how seldom the kernel looks at the members of a bond."""
    if not options.monitored:
        return "no link monitoring: miimon 0"
    option = "miimon" if options.miimon_ms else "arp_interval"
    slow_ms = options.miimon_ms or options.arp_interval_ms
    return f"it looks every {slow_ms / 1000:g} s: {option} {slow_ms}"


def under(host: HostNetwork, index: int) -> tuple[int, ...]:
    """Return the indexes of interface ``index`` and of what it lies on: VLAN, bridge, bond."""
    found = [index]
    for at in found:
        link = host.links.get(at)
        if link is None:
            continue
        below = [link.parent] if link.kind == VLAN and link.parent else []
        if link.kind == BRIDGE:
            below += [port.index for port in host.ports_of(at)]
        found += [one for one in below if one not in found]
    return tuple(found)


def obstruct(
    host: HostNetwork, ways: tuple[WayOut, ...], bonds: tuple[BondView, ...]
) -> tuple[WayOut, ...]:
    """Return the ways out; those over a bond behind which nobody answers do not carry."""
    troubles = {bond.index: text for bond in bonds if (text := trouble(bond))}
    if not troubles:
        return ways
    return tuple(way if way.obstacle else _obstructed(host, way, troubles) for way in ways)


def _obstructed(host: HostNetwork, way: WayOut, troubles: Mapping[int, str]) -> WayOut:
    found = next((troubles[at] for at in under(host, way.index) if at in troubles), "")
    return replace(way, obstacle=found) if found else way


def trouble(bond: BondView) -> str:
    """Return why nothing comes back through a bond whose links are fine; empty if it does."""
    if bond.silent:
        return f"{bond.name}: {bond.silent}"
    active = next((member for member in bond.dead if member.name == bond.active), None)
    return f"{active.name}: {active.path_reason}" if active else ""


def losses(bond: BondView) -> Iterator[str]:
    """Yield what the probes of a bond find wrong, in words."""
    if bond.silent:
        yield f"{bond.name}: {bond.silent}"
    yield from (f"{member.name}: {member.path_reason}" for member in bond.dead)


# Events.


def compare(before: tuple[BondPaths, ...], after: tuple[BondPaths, ...]) -> Iterator[Happening]:
    """Yield what changed between two reports of the probes."""
    old = {paths.bond: paths for paths in before}
    for paths in after:
        earlier = old.get(paths.bond) or BondPaths(paths.bond)
        yield from _members(earlier, paths)
        if bool(earlier.silent) != bool(paths.silent):
            kind = "bond.target_silent" if paths.silent else "bond.target_answers"
            severity = Severity.CRITICAL if paths.silent else Severity.INFO
            text = paths.silent or earlier.silent
            yield Happening(kind, paths.bond, {"reason": text}, severity)
        if earlier.locked != paths.locked:
            kind = "bond.locked" if paths.locked else "bond.unlocked"
            severity = Severity.WARNING if paths.locked else Severity.INFO
            yield Happening(kind, paths.bond, {}, severity)


def _members(before: BondPaths, after: BondPaths) -> Iterator[Happening]:
    old = {path.name: path for path in before.members}
    for path in after.members:
        earlier = old.get(path.name) or MemberPath(path.name)
        if (earlier.verdict == "dead") == (path.verdict == "dead"):
            continue
        if path.verdict == "dead":
            data: dict[str, object] = {"member": path.name, "reason": path.reason}
            kind = "bond.standby_dead"
            if path.died_active:
                kind, data["would"] = "bond.path_dead", after.would or None
            yield Happening(kind, after.bond, data, Severity.WARNING)
        else:
            kind = "bond.path_alive" if earlier.died_active else "bond.standby_alive"
            data = {"member": path.name, "verdict": path.verdict, "reason": path.reason}
            yield Happening(kind, after.bond, data)


def moved(reading: BondMoveReading) -> Happening:
    """Return the event for a move that the agent made, or that the kernel refused."""
    data = {
        "previous": reading.previous or None,
        "active": reading.active,
        "reason": reading.reason,
    }
    if reading.error:
        data["error"] = reading.error
        return Happening("bond.move_failed", reading.bond, data, Severity.WARNING)
    return Happening("bond.moved", reading.bond, data, Severity.WARNING)


# Flapping.


def remember(
    changes: Mapping[int, tuple[int, ...]],
    before: tuple[BondView, ...],
    after: tuple[BondView, ...],
    now: Moment,
    keep: int,
) -> Changes:
    """Return when the active member of each bond changed, as often as matters."""
    old = {bond.index: bond.active for bond in before}
    kept: Changes = {}
    for bond in after:
        times = changes.get(bond.index, ())
        was = old.get(bond.index)
        if was and bond.active and was != bond.active:
            times = (*times, now.mono_ns)[-keep:]
        if times:
            kept[bond.index] = times
    return kept


def flaps(
    bonds: tuple[BondView, ...],
    before: tuple[BondView, ...],
    changes: Mapping[int, tuple[int, ...]],
    now: Moment,
    rules: PolicySettings,
) -> tuple[tuple[BondView, ...], list[Happening]]:
    """Return the bonds with flapping judged, and what began or ended."""
    if not changes and not any(bond.flapping for bond in before):
        return bonds, []
    old = {bond.index: bond.flapping for bond in before}
    judged, found = [], []
    for bond in bonds:
        times = changes.get(bond.index, ())
        flapping = is_flapping(
            times,
            now.mono_ns,
            count=rules.flap_downs,
            window_s=rules.flap_window_s,
            quiet_s=rules.flap_quiet_s,
        )
        judged.append(bond if bond.flapping == flapping else replace(bond, flapping=flapping))
        if flapping != old.get(bond.index, False):
            found.append(_flap(bond, len(times), rules, flapping=flapping))
    return tuple(judged), found


def _flap(bond: BondView, count: int, rules: PolicySettings, *, flapping: bool) -> Happening:
    if not flapping:
        return Happening("bond.steady", bond.name, {"quiet_s": rules.flap_quiet_s})
    data = {"changes": count, "window_s": rules.flap_window_s}
    return Happening("bond.flapping", bond.name, data, Severity.WARNING)


def flap_ends_ns(
    bonds: tuple[BondView, ...], changes: Mapping[int, tuple[int, ...]], rules: PolicySettings
) -> Iterator[int]:
    """Yield when each flapping bond counts as steady if nothing more happens."""
    for bond in bonds:
        if bond.flapping:
            yield flap_end_ns(changes[bond.index], rules.flap_quiet_s)


SELECT_ALWAYS = 0  # IFLA_BOND_PRIMARY_RESELECT


def flap_advice(state: NodeState, bond: BondView, window_s: float) -> str:
    """Return what a person should do about a bond whose active member changes too often.

    The members that lost their links most often within ``window_s`` are named, not those that did
    in their lifetime.
    """
    host = state.host or HostNetwork()
    latest_ns = max(state.bond_changes.get(bond.index, (0,)))
    since_ns = latest_ns - int(window_s * 1e9)
    losses = {
        port.name: sum(at >= since_ns for at in state.histories[port.index].downs)
        for port in host.ports_of(bond.index)
        if port.index in state.histories
    }
    most = max(losses.values(), default=0)
    if most:
        worst = " and ".join(name for name, count in losses.items() if count == most)
        advice = f"look at cable, module and switch port of {worst}"
    else:
        advice = (
            "no member lost its link meanwhile: look at what is behind the switches, and who else "
            f"moves it (linkhold events, bond.moved and bond.failover of {bond.name})"
        )
    link = host.links.get(bond.index)
    options = link.bond if link else None
    if options is not None and options.primary and options.primary_reselect == SELECT_ALWAYS:
        advice += "; primary_reselect is always, which doubles the failovers: set it to failure"
    return advice
