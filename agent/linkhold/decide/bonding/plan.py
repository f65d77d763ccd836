"""``linkhold bond plan``: from what is wanted and what there is to what would be done. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from linkhold.decide.bonding import adjust, convert, handover, refusals, remake, warnings
from linkhold.decide.bonding.handover import Holding
from linkhold.decide.bonding.objects import Belongings, belongings
from linkhold.decide.bonding.readback import named
from linkhold.decide.bonding.steps import (
    Checks,
    Phase,
    Plan,
    Refusal,
    RestoreFile,
    Undo,
    WriteFile,
)
from linkhold.decide.bonding.wanted import Wanted, resolve, with_mtu, without
from linkhold.decide.paths import MAIN_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.config.settings import BondSettings
    from linkhold.decide.bonding.steps import Step
    from linkhold.model.look import Look
    from linkhold.model.survey import Answer, Survey

ORIGINALS = frozenset({"mtu", "admin_up", "mac", "perm_mac"})
"""What is kept of a member as it was before it became one."""
NO_DEFAULT_ROUTE = 1 << 32
NO_LOSS = "none expected: the bond carries before the old NIC is touched"
ONLY_NIC = "the only NIC goes down and up: as long as its link needs to train, 1 to 5 s on copper"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked on the wire before planning.

    ``answers``: through each member, whether a target answers. ``pings``:
    hosts that answered an echo, among them the operator's own. ``holding`` is how
    the live NIC (or the bond, where it stands) is configured by its owner; ``record`` what was kept
    when the bond was made here, empty when it was not. ``mentions`` are files of firewall rules and
    the member that each names.
    """

    answers: Mapping[str, Answer] = field(default_factory=dict)
    pings: tuple[str, ...] = ()
    holding: Holding = Holding()
    record: Mapping[str, Any] = field(default_factory=dict)
    mentions: tuple[tuple[str, str], ...] = ()


def plan(
    name: str,
    settings: BondSettings,
    look: Look,
    survey: Survey,
    asked: Asked = Asked(),
    *,
    spare: frozenset[str] | None = None,
) -> Plan:
    """Return the plan for one entry of ``bonds:``. Equal arguments give an equal plan.

    With ``spare`` it is a repair: those members are left alone, and absent ones are no reason
    not to make the rest, nor is what speaks against converting a host.
    """
    wanted, missing = resolve(name, settings, survey)
    if spare is not None:
        wanted, missing = without(wanted, spare), ()
    live = live_member(wanted, look)
    against = (*missing, *_refusals(wanted, look, survey, asked, live, repair=spare is not None))
    if against or not wanted.members:
        return Plan(name, "apply", refusals=against)
    if look.link(name) is not None:
        return _adjusted(wanted, look, survey, asked, repair=spare is not None)
    return _made(wanted, look, survey, asked, live)


def _made(wanted: Wanted, look: Look, survey: Survey, asked: Asked, live: str) -> Plan:
    """Return the plan of a bond that does not stand yet; ``live`` carries what it shall carry."""
    settings = wanted.settings
    near, _ = split_targets(settings, belongings(look, live))
    told = (
        *warnings.all_of(wanted, survey, look, dict(asked.answers), (*near, *asked.pings), live),
        *warnings.about_files(wanted, survey, look, live, asked.holding.client, asked.mentions),
    )
    work, interruption = _work(wanted, look, live, near)
    over = _handed_over(wanted, look, survey, asked, live)
    checks = _checks(wanted, look, near, asked)
    phases, undo = handover.around(over, wanted.name, *work)
    return Plan(
        wanted.name,
        "apply",
        phases=phases,
        undo=undo,
        checks=checks,
        warnings=told,
        interruption=interruption,
        unverified=unverified(checks) if live else "",
        confirm_after_s=settings.confirm_after_s,
        guard_s=settings.guard_s,
        remake=remake.steps(wanted, look, live),
        give_back=remake.give_back(wanted, look, live),
        volatile=over.volatile,
        record={
            **record(wanted, look, live),
            "persist": over.persist,
            "profile": asked.holding.file,
            "connection": asked.holding.connection,
        },
    )


def _work(
    wanted: Wanted, look: Look, live: str, near: tuple[str, ...]
) -> tuple[tuple[tuple[Phase, ...], tuple[Undo, ...]], str]:
    """Return the phases with their way back, and in words what traffic will notice."""
    if not live:
        return convert.from_idle(wanted, look), "none: the members carry nothing"
    if len(wanted.members) == 1:
        return convert.only_nic(wanted, look, live), ONLY_NIC
    return convert.make_before_break(wanted, look, live, near), NO_LOSS


def _handed_over(
    wanted: Wanted, look: Look, survey: Survey, asked: Asked, live: str
) -> handover.HandOver:
    old = look.link(live)
    mac = "" if wanted.fail_over_mac or old is None else old.mac
    booted = with_mtu(wanted, old.mtu) if old is not None else wanted
    owner = survey.owner(live or wanted.members[0])
    metrics = _metrics(look, live)
    return handover.hand_over(booted, live, owner, mac, asked.holding, metrics)


def live_member(wanted: Wanted, look: Look) -> str:
    """Return the member that carries the host's network, empty if none does.

    Where several do, the one with the best default route, else the first.
    """
    carrying = [name for name in wanted.members if not belongings(look, name).empty]
    return min(carrying, key=lambda name: _preference(look, name), default="")


def _preference(look: Look, name: str) -> int:
    """The better default route carries; of equal ones the first, since min() is stable."""
    return min(_metrics(look, name).values(), default=NO_DEFAULT_ROUTE)


def _metrics(look: Look, live: str) -> dict[str, int]:
    """Return the metric of the default route over a NIC, by family; of several the best."""
    defaults = [
        route
        for route in belongings(look, live).routes
        if route.destination == "default" and route.table == MAIN_TABLE
    ]
    return {route.family: route.metric for route in sorted(defaults, key=lambda r: -r.metric)}


def split_targets(
    settings: BondSettings, mine: Belongings
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the targets that ARP or ND can ask, and those beyond a router.

    Without configured targets: the gateways of the routes that move.
    """
    gateways = [route.gateway for route in mine.routes if route.gateway]
    chosen = dict.fromkeys(settings.targets or gateways)
    networks = [ipaddress.ip_interface(address.address).network for address in mine.addresses]
    networks += [
        ipaddress.ip_network(route.destination)
        for route in mine.routes
        if route.destination != "default" and not route.gateway
    ]
    near = {
        target: any(ipaddress.ip_address(target) in network for network in networks)
        for target in chosen
    }
    on_link = tuple(target for target, yes in near.items() if yes)
    return on_link, tuple(target for target, yes in near.items() if not yes)


def _refusals(
    wanted: Wanted, look: Look, survey: Survey, asked: Asked, live: str, *, repair: bool
) -> Iterator[Refusal]:
    standing = look.link(wanted.name)
    first = () if repair else tuple(refusals.of_its_own(wanted, look, asked.record, live))
    if first:  # what else there is to say would be about another bond than the one to be
        yield from first
        return
    if standing is None or standing.kind != "bond" or not repair:
        yield from refusals.host_refusals(wanted, look, survey)
    if standing is not None and standing.kind == "bond":
        yield from adjust.refusals(wanted, look, named(look, standing.bond or {}))
    for name in wanted.members:
        nic, owner, link = survey.nic(name), survey.owner(name), look.link(name)
        if standing is not None and link is not None and link.master == standing.index:
            continue  # a member already; whatever speaks against it did not keep it out
        if nic is not None:
            yield from refusals.member_refusals(wanted, nic, look)
        if owner is not None:
            yield from refusals.owner_refusals(wanted, owner, live=name == live)
    for text in asked.holding.unread:
        yield Refusal(wanted.name, text, "plan as root: the bond's profile is made from it")
    if standing is None:
        owners = {owner.name: owner for owner in survey.owners}
        yield from refusals.standby_refusals(wanted, look, live, dict(asked.answers), owners)
        yield from refusals.routing_refusals(wanted, look, live)


def _adjusted(wanted: Wanted, look: Look, survey: Survey, asked: Asked, *, repair: bool) -> Plan:
    standing = look.link(wanted.name)
    assert standing is not None  # noqa: S101 - the caller found it there
    bond = named(look, standing.bond or {})
    phases, undo = adjust.phases(wanted, look, bond)
    mac = "" if wanted.fail_over_mac else standing.mac
    told = []
    writes: tuple[Step, ...] = ()
    if phases and (lost := handover.unwritable(wanted.name, asked.record, asked.holding)):
        if not repair:
            return Plan(wanted.name, "adjust", refusals=(lost,))
        told.append(f"the bond is mended, its profile is not: {lost.text}")
    elif phases:
        booted = with_mtu(wanted, standing.mtu)
        writes = handover.rewritten(booted, asked.record, mac, asked.holding.text)
    if writes:
        title = f"write the profile of {wanted.name} for {asked.record['persist']}"
        phases = (*phases, Phase(title, writes, confirmed=True))
        paths = [step.path for step in writes if isinstance(step, WriteFile)]
        undo = (*undo, *(Undo(RestoreFile(path)) for path in paths))
    if phases and asked.record.get("persist", handover.NONE) == handover.NONE:
        told += warnings.about_foreign(wanted, survey)
    strangers = [p.name for p in look.ports_of(standing.index) if p.name not in wanted.members]
    told += [
        f"{name} is in {wanted.name} but not in the configuration; "
        f"take it out with: ip link set {name} nomaster"
        for name in strangers
    ]
    mine = belongings(look, wanted.name)
    checks = _checks(wanted, look, split_targets(wanted.settings, mine)[0], asked)
    return Plan(
        wanted.name,
        "adjust",
        phases=phases,
        undo=undo,
        checks=checks,
        warnings=tuple(told),
        interruption="none expected: the active member stays" if phases else "",
        unverified="" if mine.empty else unverified(checks),
        confirm_after_s=wanted.settings.confirm_after_s,
        guard_s=wanted.settings.guard_s,
        remake=remake.steps(wanted, look, wanted.name),
        give_back=remake.give_back(wanted, look, wanted.name),
        record={
            **record(wanted, look, ""),
            "persist": handover.NONE,
            "before": adjust.before(wanted, look, bond),
        },
    )


def _checks(wanted: Wanted, look: Look, near: tuple[str, ...], asked: Asked) -> Checks:
    options = {**wanted.options, "primary": wanted.primary}
    standing = look.link(wanted.name)
    if standing is not None:
        reported = standing.bond or {}
        options = {k: v for k, v in options.items() if k in reported or k == "primary"}
    return Checks(
        answers=((wanted.name, near),) if near else (),
        pings=asked.pings,
        bonds={wanted.name: options},
        members={wanted.name: wanted.members},
    )


def unverified(checks: Checks) -> str:
    """Return why nothing on the wire can show whether a change works; empty where it can."""
    if checks.pings or any(targets for _, targets in checks.answers):
        return ""
    return "no gateway and no target in reach can show whether the network works afterwards"


def record(wanted: Wanted, look: Look, live: str) -> dict[str, object]:
    """Return what is kept about a bond that was made, for its removal and for the agent."""
    links = [link for name in wanted.members if (link := look.link(name)) is not None]
    carried = belongings(look, live or wanted.name).routable
    return {
        "bond": wanted.name,
        "members": list(wanted.members),
        "live": live,
        "targets": list(wanted.settings.targets),
        "addresses": [one.address for one in carried],
        "options": {**wanted.options, "primary": wanted.primary},
        "originals": {
            link.name: {k: v for k, v in asdict(link).items() if k in ORIGINALS} for link in links
        },
    }
