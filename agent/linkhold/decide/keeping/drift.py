"""In which ways a bond on this host differs from what the configuration wants. Pure.

Kinds: ``gone``, ``not_active_backup``, ``bond_admin_down``; of a member ``member_absent`` (no such
NIC), ``member_left``, ``member_elsewhere``, ``member_admin_down``, ``member_addressed``,
``stranger`` (a member that nobody asked for); and ``option``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.config.settings import MacPolicy
from linkhold.decide.bonding.wanted import NEEDS_NO_MEMBERS, find_nic, with_members
from linkhold.decide.bonds import MODES
from linkhold.model import Drift
from linkhold.rtnl.bond import MODE_ACTIVE_BACKUP

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from linkhold.config.settings import BondSettings
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model import BondOptions, HostNetwork, Link

ABSENCES = frozenset({"member_absent", "member_left", "member_elsewhere"})
"""With one of these the bond has fewer members than it should: the node is degraded."""
SET_DOWN = frozenset({"member_admin_down", "bond_admin_down"})
"""What the links themselves show as well, so that others tell of it."""
LOSSES = frozenset({"gone", "not_active_backup"}) | ABSENCES


@dataclass(frozen=True, slots=True)
class Sight:
    """One configured bond as this host has it: ``nics`` by the words of the configuration."""

    wanted: Wanted
    nics: dict[str, Link]
    absent: tuple[str, ...]
    bond: Link | None

    @property
    def standing(self) -> bool:
        """Whether it is there as an active-backup bond."""
        options = self.bond.bond if self.bond else None
        return options is not None and options.mode == MODE_ACTIVE_BACKUP


def sight(name: str, settings: BondSettings, host: HostNetwork) -> Sight:
    """Return what of a configured bond is there. The permanent MAC counts, not the bond's."""
    found: dict[str, Link] = {}
    for member in settings.members:
        nic = host.by_name(member) or find_nic(
            map(_with_permanent_mac, host.links.values()), member
        )
        if nic is not None and nic.index not in {other.index for other in found.values()}:
            found[member] = nic
    absent = tuple(member for member in settings.members if member not in found)
    return Sight(with_members(name, settings, found), found, absent, host.by_name(name))


def _with_permanent_mac(link: Link) -> Link:
    permanent = (link.port.perm_mac if link.port else "") or link.perm_mac or link.mac
    return link if permanent == link.perm_mac else replace(link, perm_mac=permanent)


def drifts(
    seen: Sight, host: HostNetwork, set_down: Collection[int], bar: str
) -> tuple[Drift, ...]:
    """Return every difference.

    ``set_down`` are indexes of NICs that somebody set down; ``bar`` says why nothing of this bond
    is repaired at all, empty when it may be.
    """
    found = (*_whole(seen, host, set_down), *_parts(seen, host, set_down))
    return tuple(replace(d, obstacle=d.obstacle or bar) for d in found)


def _parts(seen: Sight, host: HostNetwork, set_down: Collection[int]) -> Iterator[Drift]:
    if seen.bond is None or not seen.standing:
        return
    yield from _members(seen, seen.bond, host, set_down)
    yield from _options(seen, seen.bond, host)


def _whole(seen: Sight, host: HostNetwork, set_down: Collection[int]) -> Iterator[Drift]:
    name, bond = seen.wanted.name, seen.bond
    if bond is None:
        obstacle = _against_making(seen, host, set_down)
        yield Drift("gone", name, "there", "gone", f"{name} is gone", obstacle)
    elif not seen.standing:
        mode = _mode(bond)
        text = f"{name} is no active-backup bond any more ({mode})"
        obstacle = f"remove it (ip link del {name}), then: linkhold bond repair {name}"
        yield Drift("not_active_backup", name, "active-backup", mode, text, obstacle)
    elif not bond.admin_up:
        obstacle = f"never raised by linkhold; to raise it: ip link set {name} up"
        yield Drift("bond_admin_down", name, "up", "set down", f"{name} is set down", obstacle)


def _mode(bond: Link) -> str:
    if bond.bond is None:
        return bond.kind or "a NIC"
    mode = bond.bond.mode
    return MODES[mode] if mode < len(MODES) else str(mode)


def _against_making(seen: Sight, host: HostNetwork, set_down: Collection[int]) -> str:
    """Return why a bond that is gone is not made again, empty when it can be."""
    name = seen.wanted.name
    by_hand = f"by hand: linkhold bond repair {name}"
    elsewhere = [nic for nic in seen.nics.values() if nic.master is not None]
    if elsewhere:
        nic = elsewhere[0]
        return f"{nic.name} is in {_name(host, nic.master)} now; {by_hand}"
    if not any(nic.index not in set_down for nic in seen.nics.values()):
        return f"its members are set down or absent, and never raised by linkhold; {by_hand}"
    return ""


def _members(
    seen: Sight, bond: Link, host: HostNetwork, set_down: Collection[int]
) -> Iterator[Drift]:
    name = bond.name
    for member in seen.absent:
        text = f"{member} is wanted in {name} and no such NIC is here; it joins when it appears"
        yield Drift("member_absent", member, f"in {name}", "absent", text, "there is no such NIC")
    for nic in seen.nics.values():
        if nic.master == bond.index:
            yield from _inside(nic, bond, host)
        else:
            yield _outside(nic, bond, host, set_down)
    for port in host.ports_of(bond.index):
        if port.name not in seen.wanted.members:
            text = f"{port.name} is in {name} and not in the configuration"
            obstacle = f"to take it out: ip link set {port.name} nomaster"
            yield Drift("stranger", port.name, "not a member", f"in {name}", text, obstacle)


def _inside(nic: Link, bond: Link, host: HostNetwork) -> Iterator[Drift]:
    name = nic.name
    if not nic.admin_up:
        obstacle = f"never raised by linkhold; to raise it: ip link set {name} up"
        text = f"{name}, a member of {bond.name}, is set down"
        yield Drift("member_admin_down", name, "up", "set down", text, obstacle)
    own = sorted(
        f"{a.address}/{a.prefix_len}"
        for a in host.addresses
        if a.index == nic.index and a.scope == "global"
    )
    if own:
        found = ", ".join(own)
        text = f"{name}, a member of {bond.name}, has addresses of its own ({found}), of no use"
        obstacle = f"where nobody uses them: ip address del ADDRESS dev {name}"
        yield Drift("member_addressed", name, "no addresses", found, text, obstacle)


def _outside(nic: Link, bond: Link, host: HostNetwork, set_down: Collection[int]) -> Drift:
    name, wanted = nic.name, f"in {bond.name}"
    if nic.master is not None:
        master = _name(host, nic.master)
        text = f"{name} is in {master} and not in {bond.name}"
        obstacle = f"to take it out: ip link set {name} nomaster"
        return Drift("member_elsewhere", name, wanted, f"in {master}", text, obstacle)
    text, obstacle = f"{name} is not in {bond.name}", ""
    if nic.index in set_down:
        text += " and set down"
        obstacle = f"never raised by linkhold; to take it in: linkhold bond repair {bond.name}"
    elif any(a.index == nic.index and a.scope == "global" for a in host.addresses):
        text += " and has addresses of its own"
        obstacle = f"where nobody uses them: ip address del ADDRESS dev {name}"
    return Drift("member_left", name, wanted, "in no bond", text, obstacle)


def _name(host: HostNetwork, index: int | None) -> str:
    link = host.links.get(index) if index else None
    return link.name if link else f"interface {index}"


def _options(seen: Sight, bond: Link, host: HostNetwork) -> Iterator[Drift]:
    assert bond.bond is not None  # noqa: S101 - _parts() asks only about bonds
    for option, want, value in _differing(seen.wanted, bond.bond):
        obstacle = ""
        if option in NEEDS_NO_MEMBERS:
            obstacle = (
                "the kernel changes it without members only: linkhold bond remove, then apply"
            )
        text = f"{option} of {bond.name} is {value}, wanted {want}"
        yield Drift("option", option, str(want), str(value), text, obstacle)
    primary, now = seen.nics.get(_primary_word(seen)), bond.bond.primary
    if primary is not None and primary.master == bond.index and now != primary.index:
        value = _name(host, now) if now else "none"
        text = f"primary of {bond.name} is {value}, wanted {primary.name}"
        yield Drift("option", "primary", primary.name, value, text)


def _primary_word(seen: Sight) -> str:
    settings = seen.wanted.settings
    return settings.primary or settings.members[0]


def _differing(wanted: Wanted, options: BondOptions) -> Iterator[tuple[str, object, object]]:
    """Yield option, wanted and seen; a value that this kernel does not report does not differ.

    What ``fail_over_mac: auto`` chose when the bond was made is not judged again.
    """
    reported = _reported(options)
    for name, want in wanted.options.items():
        automatic = name == "fail_over_mac" and wanted.settings.fail_over_mac is MacPolicy.AUTO
        value = reported.get(name)
        if value is not None and not automatic and value != want:
            yield name, want, value


def _reported(options: BondOptions) -> dict[str, int | None]:
    return {
        "mode": options.mode,
        "miimon": options.miimon_ms,
        "updelay": options.updelay_ms,
        "downdelay": options.downdelay_ms,
        "peer_notif_delay": options.peer_notif_delay_ms,
        "primary_reselect": options.primary_reselect,
        "fail_over_mac": options.fail_over_mac,
        "resend_igmp": options.resend_igmp,
        "num_peer_notif": options.num_peer_notif,
        "all_slaves_active": options.all_slaves_active,
    }
