"""A bond goes away again, and one of its members carries everything as before. Pure.

Make before break here too: while another member carries the bond, the NIC that is to stay leaves
it and comes up; then everything moves over in one burst, and the bond is removed.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold.config.settings import BondSettings
from linkhold.decide.bonding import handover, routes
from linkhold.decide.bonding.convert import ARPHRD_ETHER, loud_sysctls, quiet_sysctls
from linkhold.decide.bonding.objects import belongings, drop_addresses, fingerprint, moved, put_back
from linkhold.decide.bonding.plan import ONLY_NIC, split_targets, unverified
from linkhold.decide.bonding.readback import named
from linkhold.decide.bonding.steps import (
    GONE_ALREADY,
    THERE_ALREADY,
    Announce,
    AskPath,
    Await,
    Burst,
    Checks,
    DropLink,
    Phase,
    Plan,
    Refusal,
    SetBond,
    SetLink,
    SetSysctls,
    Unchanged,
    Undo,
)
from linkhold.model.survey import OwnerKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from linkhold.decide.bonding.steps import Step
    from linkhold.model.look import Look, LookedLink
    from linkhold.model.survey import Owner

LEAVE, CUT_OVER, TAKE_AWAY = 0, 1, 2
NO_LOSS = "none expected: the bond carries until the NIC does"
NOT_SETTABLE = frozenset({"active_slave", "use_carrier"})


@dataclass(frozen=True, slots=True)
class Leaving:
    """What was asked before a bond is taken away.

    ``owner`` configures the bond, ``dead`` are members through which the gateway does not answer,
    ``pings`` hosts that answered an echo, ``in_use`` the .network files that networkd uses.
    """

    owner: Owner | None = None
    dead: frozenset[str] = frozenset()
    pings: tuple[str, ...] = ()
    in_use: tuple[str, ...] = ()


def plan_removal(
    name: str, look: Look, record: Mapping[str, Any] | None, asked: Leaving = Leaving()
) -> Plan:
    """Return the plan that takes bond ``name`` away.

    ``record`` is what was kept when it was made. Without one (a bond that others made) the
    primary, or else the active member, stays, and members keep their MTU and are left up.
    """
    bond = look.link(name)
    if bond is None or bond.kind != "bond":
        return Plan(name, "remove", refusals=(_no_bond(name, look, record),))
    owner, ours = asked.owner, (record or {}).get("persist", handover.NONE) != handover.NONE
    if owner is not None and owner.kind is not OwnerKind.NOBODY and not ours:
        return Plan(name, "remove", refusals=(_somebodys(name, owner),))
    options = named(look, bond.bond or {})
    ports = look.ports_of(bond.index)
    stays = _stays(options, ports, record or {}, asked.dead)
    near, _ = split_targets(targets_of(record), belongings(look, name))
    # A bond of NICs that carried nothing has sysctls of its own, not those of the NIC that stays.
    like = stays if record is not None and not record.get("live") else name
    phases: tuple[Phase, ...] = (
        Phase(
            f"{stays} leaves {name}",
            tuple(_leave(look, bond, options, stays, like, near, asked.dead)),
        ),
        Phase(f"move everything from {name} to {stays}", tuple(_cut_over(look, name, stays))),
        Phase(f"remove {name}", tuple(_take_away(look, name, stays, like, record or {}))),
    )
    undo: tuple[Undo, ...] = tuple(_way_back(look, bond, options, stays)) if stays else ()
    if not ports:
        phases = (Phase(f"remove {name}", (Burst((DropLink(name),)),)),)
    phases, undo = handover.around(
        handover.removal(record or {}, asked.in_use), stays, phases, undo
    )
    checks = Checks(answers=((stays, near),) if near and stays else (), pings=asked.pings)
    carries = bool(stays) and not belongings(look, name).empty
    return Plan(
        name,
        "remove",
        phases=phases,
        undo=undo,
        checks=checks,
        interruption=NO_LOSS if _others(look, bond.index, stays) else ONLY_NIC,
        warnings=_told(name, record, stays),
        unverified=unverified(checks) if carries else "",
        record={"live": stays},
    )


def _no_bond(name: str, look: Look, record: Mapping[str, Any] | None) -> Refusal:
    if record is not None and look.link(name) is None:
        remedy = (
            "linkhold restore gives its NIC back what it carried, and linkhold bond repair "
            f"{name} makes it again"
        )
        return Refusal(name, "was made here and is gone already", remedy)
    names = [link.name for link in look.links if link.kind == "bond"]
    return Refusal(name, "is no bond on this host", f"bonds here: {', '.join(names) or 'none'}")


def _told(name: str, record: Mapping[str, Any] | None, stays: str) -> tuple[str, ...]:
    """Return what a person should know of a bond that linkhold did not make."""
    if record is not None and record.get("persist") != handover.NONE:
        return ()
    left = f"{stays} gets what it carries, and " if stays else ""
    text = (
        f"{name} was not made by linkhold: {left}only whoever made it can bring it back, and may "
        "do so at the next boot"
    )
    return (text,)


def around_return(
    record: Mapping[str, Any], in_use: tuple[str, ...], apart: Collection[str] = ()
) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return the steps before and after a NIC gets back what a bond that is gone carried.

    By them a manager lets go of the NICs and has its old files again, and a NIC is set down that
    was down before the bond was made; not one that is ``apart``, which somebody uses.
    """
    over = handover.removal(record, in_use)
    idle = [
        Burst((SetLink(name, up=False, fine=GONE_ALREADY),))
        for name, before in record.get("originals", {}).items()
        if name not in {*apart, record.get("live")} and not before.get("admin_up", True)
    ]
    return over.take, (*idle, *over.give)


def targets_of(record: Mapping[str, Any] | None) -> BondSettings:
    """Return the settings that say who is asked: those with which the bond was made."""
    return BondSettings(targets=tuple((record or {}).get("targets", ())))


def _somebodys(name: str, owner: Owner) -> Refusal:
    seen = owner.evidence if owner.kind is not OwnerKind.UNKNOWN else owner.unknown
    by = f"{owner.kind.value} ({seen[0]})" if seen else owner.kind.value
    remedy = f"take it out of {', '.join(owner.profile_files) or owner.kind.value}"
    if owner.kind is OwnerKind.UNKNOWN:
        by, remedy = f"somebody unknown ({seen[0]})" if seen else by, "see who configures it"
    reason = f"is configured by {by} and was not made here: it would come back"
    return Refusal(name, reason, f"{remedy}, then plan again")


def _stays(
    options: Mapping[str, object],
    ports: tuple[LookedLink, ...],
    record: Mapping[str, Any],
    dead: frozenset[str],
) -> str:
    """Return who carries on: the one of before, unless it is known not to carry.

    Then the active member, if that one does; but a manager's old profile is for the one of before.
    """
    names = [port.name for port in ports]
    working = [port.name for port in ports if port.usable and port.name not in dead]
    active = options.get("active_slave")
    wishes = (record.get("live"), options.get("primary"), active)
    first = next((str(wish) for wish in wishes if wish in names), names[0] if names else "")
    native = record.get("persist") in handover.NATIVE.values()
    if first in working or not working or native:
        return first
    return str(active) if active in working else working[0]


def _leave(
    look: Look,
    bond: LookedLink,
    options: Mapping[str, object],
    stays: str,
    like: str,
    near: tuple[str, ...],
    dead: frozenset[str],
) -> Iterator[Step]:
    others = sorted(_others(look, bond.index, stays), key=lambda name: name in dead)
    if not others:
        # The bond loses its carrier now, and with that some of its routes by itself.
        yield Unchanged(bond.name, fingerprint(look, bond.name))
    if others and near and bond.hw_type == ARPHRD_ETHER:
        # As a member still, whose question misleads no switch (survey/gateway.py).
        yield AskPath(stays, near)
    if options.get("active_slave") == stays and others:
        yield Burst((SetBond(bond.name, {"active_slave": others[0]}),))
    yield quiet_sysctls(look, like, stays)
    yield Burst((SetLink(stays, master=""), SetLink(stays, up=True, mtu=bond.mtu)))
    yield Await((stays,))


def _others(look: Look, bond: int, stays: str) -> list[str]:
    """Return the members that can carry the bond while ``stays`` leaves it."""
    return [port.name for port in look.ports_of(bond) if port.name != stays and port.usable]


def _cut_over(look: Look, name: str, stays: str) -> Iterator[Step]:
    bond = look.link(name)
    assert bond is not None  # noqa: S101 - plan_removal() found it
    if _others(look, bond.index, stays):
        yield Unchanged(name, fingerprint(look, name))
    port = look.link(stays)
    own = port is None or (port.port or {}).get("perm_hwaddr", bond.mac) == bond.mac
    if (bond.bond or {}).get("fail_over_mac") or not own:
        # Its link-local addresses are made of another MAC than the one that the NIC has again.
        kept = (a for a in look.addresses if a.index != bond.index or not a.link_local)
        look = replace(look, addresses=tuple(kept))
    yield Burst(moved(look, name, stays))
    hosts = belongings(look, name).hosts
    if hosts:
        yield Announce(stays, hosts)


def _take_away(
    look: Look, name: str, stays: str, like: str, record: Mapping[str, Any]
) -> Iterator[Burst | SetSysctls]:
    bond = look.link(name)
    assert bond is not None  # noqa: S101 - plan_removal() found it
    yield Burst((*drop_addresses(belongings(look, name)), DropLink(name)))
    yield loud_sysctls(look, like, stays)
    originals = record.get("originals", {})
    for port in look.ports_of(bond.index):
        before = originals.get(port.name, {})
        mtu = int(before.get("mtu", 0))
        up = bool(before.get("admin_up", True))
        if port.name != stays:
            yield Burst((SetLink(port.name, up=up, mtu=mtu),))
        elif belongings(look, name).empty and not up:
            yield Burst((SetLink(port.name, up=False, mtu=mtu),))
        elif mtu not in {0, bond.mtu}:
            yield Burst((SetLink(port.name, mtu=mtu),))


def _way_back(
    look: Look, bond: LookedLink, options: Mapping[str, object], stays: str
) -> Iterator[Undo]:
    """Yield how the bond stands again with all that it had, from any point."""
    name, mine = bond.name, belongings(look, bond.name)
    settable = {k: v for k, v in options.items() if k not in NOT_SETTABLE and _matters(k, options)}
    make = SetBond(
        name,
        {k: v for k, v in settable.items() if k != "primary"},
        create=True,
        mac=bond.mac,
        mtu=bond.mtu,
        fine=THERE_ALREADY,
    )
    yield Undo(Burst((make,)), TAKE_AWAY)
    yield Undo(quiet_sysctls(look, name, name), TAKE_AWAY)
    for port in look.ports_of(bond.index):
        if port.name != stays:
            join = SetLink(port.name, up=False, master=name)
            # Up once more: a member that never left was only closed by the message before.
            yield Undo(Burst((join, SetLink(port.name, up=True))), TAKE_AWAY)
    yield Undo(Burst((SetLink(name, up=True),)), TAKE_AWAY)
    others = tuple(p.name for p in look.ports_of(bond.index) if p.name != stays)
    if others:
        yield Undo(Await(others, bond=name, optional=True), TAKE_AWAY)
    yield Undo(Burst(put_back(look, name, stays)), CUT_OVER)
    if mine.hosts:
        yield Undo(Announce(name, mine.hosts), CUT_OVER)
    back = SetLink(stays, up=False, master=name)
    yield Undo(Burst((*drop_addresses(mine, stays), back, SetLink(stays, up=True))), LEAVE)
    yield Undo(Burst(put_back(look, name, stays)), CUT_OVER)
    if advertised := tuple(routes.advertised(look, mine, name)):
        yield Undo(Burst(advertised), TAKE_AWAY)
    yield Undo(Await((stays,), bond=name, optional=True), LEAVE)
    for key in ("primary", "active_slave"):
        if options.get(key):
            one = SetBond(name, {key: str(options[key])}, fine=(errno.EINVAL,))
            yield Undo(Burst((one,)), LEAVE)
    yield from _sysctls_back(look, name, stays)


def _sysctls_back(look: Look, name: str, stays: str) -> Iterator[Undo]:
    """Yield the sysctls of the bond and of the member that came back.

    A write of addr_gen_mode gives a member a route for ff00::/8, and then some multicast would
    leave through it (addrconf_add_dev). Not while its IPv6 is disabled.
    """
    off = f"net/ipv6/conf/{stays}/disable_ipv6"
    values = {p: v for p, v in look.sysctls.items() if f"/{name}/" in p or f"/{stays}/" in p}
    if off in values:
        yield Undo(SetSysctls({off: "1"}, f"no IPv6 on {stays} while its sysctls change"), LEAVE)
        values[off] = values.pop(off)  # at the end
    yield Undo(SetSysctls(values, f"sysctls of {name} and {stays} as before"), LEAVE)


def _matters(option: str, options: Mapping[str, object]) -> bool:
    """Whether an option can be sent in mode active-backup and with the monitor that runs."""
    if option in {"xmit_hash_policy", "lp_interval", "packets_per_slave", "tlb_dynamic_lb"}:
        return False
    if option in {"arp_interval", "arp_validate", "arp_all_targets", "arp_ip_target", "missed_max"}:
        return bool(options.get("arp_interval"))
    if option in {"updelay", "downdelay", "peer_notif_delay", "miimon"}:
        return bool(options.get("miimon"))
    return option not in {"ns_ip6_target", "min_links"}
