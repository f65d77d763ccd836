"""A bond that stands already becomes as wanted: missing members join, options are set. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bonding.convert import idle_again, join
from linkhold.decide.bonding.objects import belongings
from linkhold.decide.bonding.readback import differing
from linkhold.decide.bonding.refusals import others_remedy
from linkhold.decide.bonding.steps import (
    GONE_ALREADY,
    Await,
    Burst,
    Phase,
    Refusal,
    SetBond,
    SetLink,
    Undo,
)
from linkhold.decide.bonding.wanted import NEEDS_NO_MEMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look, LookedLink

RESCALED_BY_MIIMON = ("updelay", "downdelay", "peer_notif_delay")
"""Kept as multiples of miimon: whoever sets miimon sets them as well, or they change with it."""
ARP_MONITOR = ("arp_interval", "arp_validate", "arp_ip_target", "ns_ip6_target")
"""What setting miimon switches off, and what an undo must therefore set again."""


def wanted_changes(wanted: Wanted, bond: Mapping[str, object]) -> dict[str, tuple[object, object]]:
    """Return the options of a standing bond that differ: name -> (wanted, seen).

    ``bond`` has interfaces by name (:func:`linkhold.decide.bonding.readback.named`). An option that
    this kernel does not report does not differ: it cannot be set either.
    """
    known = {**wanted.options, "primary": wanted.primary}
    reported = {name: value for name, value in known.items() if name in bond}
    return differing(reported, bond)


def refusals(wanted: Wanted, look: Look, bond: Mapping[str, object]) -> Iterator[Refusal]:
    """Yield what keeps a standing bond from becoming as wanted."""
    standing = look.link(wanted.name)
    assert standing is not None  # noqa: S101 - the caller found it there
    ports = look.ports_of(standing.index)
    for name, (want, seen) in wanted_changes(wanted, bond).items():
        if name in NEEDS_NO_MEMBERS and ports:
            reason = f"{name} is {seen}, wanted {want}; the kernel changes it without members only"
            remedy = f"run linkhold bond remove {wanted.name}, then apply"
            yield Refusal(wanted.name, reason, remedy)
    for name in wanted.members:
        link = look.link(name)
        if link is None or link.master == standing.index:
            continue
        if belongings(look, name).routable:
            addresses = ", ".join(a.address for a in belongings(look, name).routable)
            reason = f"has addresses of its own ({addresses}), beside {wanted.name}"
            yield Refusal(name, reason, others_remedy(wanted, name))


def phases(
    wanted: Wanted, look: Look, bond: Mapping[str, object]
) -> tuple[tuple[Phase, ...], tuple[Undo, ...]]:
    """Return what is to be done, nothing when the bond is as wanted, and the way back."""
    standing = look.link(wanted.name)
    assert standing is not None  # noqa: S101 - the caller found it there
    found: list[Phase] = []
    undo: list[Undo] = []
    joining = [
        link
        for name in wanted.members
        if (link := look.link(name)) is not None and link.master != standing.index
    ]
    if joining:
        undo += [Undo(step, len(found)) for link in joining for step in _leave(look, link)]
        found.append(_join(wanted, joining))
    options = _to_send(wanted, bond)
    if options:
        old = {name: bond[name] for name in (*options, *ARP_MONITOR) if name in bond}
        monitored = bool(bond.get("miimon"))
        back = options_back(wanted.name, old, monitored=monitored)
        undo.insert(0, Undo(Burst((back,)), len(found)))
        title = f"set options of {wanted.name}: {', '.join(options)}"
        found.append(Phase(title, (Burst((SetBond(wanted.name, options),)),)))
    return tuple(found), tuple(undo)


def _to_send(wanted: Wanted, bond: Mapping[str, object]) -> dict[str, object]:
    changes = wanted_changes(wanted, bond)
    options = {name: want for name, (want, _) in changes.items()}
    if "miimon" in options:
        options |= {n: wanted.options[n] for n in RESCALED_BY_MIIMON if n in bond}
    return options


def before(wanted: Wanted, look: Look, bond: Mapping[str, object]) -> dict[str, object]:
    """Return what a bond that others made was, for ``linkhold restore``."""
    standing = look.link(wanted.name)
    known = (*wanted.options, "primary", *ARP_MONITOR)
    return {
        "options": {name: bond[name] for name in known if name in bond},
        "members": [port.name for port in look.ports_of(standing.index)] if standing else [],
    }


def options_back(name: str, old: Mapping[str, object], *, monitored: bool) -> SetBond:
    """Return the message that sets old options again: of the two monitors the one that ran.

    ``monitored``: it was the one of miimon, without which the kernel takes no delays.
    """
    options = dict(old)
    if options.get("arp_interval"):
        options.pop("miimon", None)
        for delay in RESCALED_BY_MIIMON:
            options.pop(delay, None)
    else:
        for arp in ARP_MONITOR:
            options.pop(arp, None)
        if not monitored:
            for delay in RESCALED_BY_MIIMON:
                options.pop(delay, None)
    return SetBond(name, options, fine=GONE_ALREADY)


def _join(wanted: Wanted, joining: list[LookedLink]) -> Phase:
    names = tuple(link.name for link in joining)
    steps = [Burst((SetLink(name, up=False, master=wanted.name),)) for name in names]
    return Phase(f"{join(names)} {wanted.name}", (*steps, Await(names, bond=wanted.name)))


def _leave(look: Look, link: LookedLink) -> Iterator[Burst]:
    yield Burst((SetLink(link.name, master="", fine=GONE_ALREADY),))
    yield Burst(idle_again(look, link))
