"""Everything that a plan for one bond is made from: looked up and asked, nothing changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import IPv6Network, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.decide.bonding.objects import belongings
from linkhold.decide.bonding.plan import Asked, live_member, split_targets
from linkhold.decide.bonding.remove import Leaving, targets_of
from linkhold.decide.bonding.wanted import resolve
from linkhold.model.survey import Known
from linkhold.survey import echo, firewall, holding, host, owners, session, snapshot
from linkhold.survey.files import Reader
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.settings import BondSettings
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look
    from linkhold.model.survey import Survey

ASK_S = 2.0
ECHO_S = 0.5
LINK_LOCAL = IPv6Network("fe80::/10")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What :func:`linkhold.decide.bonding.plan.plan` needs besides the configuration."""

    look: Look
    survey: Survey
    asked: Asked


def prepare(name: str, settings: BondSettings) -> Prepared:
    """Look at the host, and ask the gateways through the standby NICs.

    Takes up to two seconds for each standby that does not answer.
    """
    first = snapshot.take()
    hardware = [link.name for link in first.links if not link.kind]
    named = [one for one in (*settings.members, name) if first.link(one) is not None]
    survey = host.look(tuple(dict.fromkeys((*named, *hardware))), name)
    wanted, _ = resolve(name, settings, survey)
    look = snapshot.take(("default", name, *wanted.members))
    live = live_member(wanted, look)
    carrier = name if look.link(name) is not None else live or next(iter(wanted.members), "")
    owner, link = survey.owner(carrier), look.link(carrier)
    held = holding.of(owner, link.index if link is not None else 0)
    asked = replace(_ask(wanted, look), holding=held, mentions=firewall.mentions(wanted.members))
    return Prepared(look, survey, asked)


def _ask(wanted: Wanted, look: Look) -> Asked:
    live = live_member(wanted, look)
    standing = look.link(wanted.name)
    carrier = wanted.name if standing is not None else live
    near, far = split_targets(wanted.settings, belongings(look, carrier))
    answers = {
        member: ask(member, near, timeout_s=ASK_S)
        for member in wanted.members
        if near and standing is None and look.link(member) is not None
    }
    return Asked(answers, pings((*near, *far)))


def pings(targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return which of ``targets`` and the operator's own SSH client answer an echo now.

    They are asked over the host's own routing, which a question on one NIC does not use; so no
    link-local address is, which belongs to one NIC.
    """
    hosts = dict.fromkeys((*targets, *filter(None, (session.client(),))))
    routed = (host for host in hosts if not _is_of_a_link(host))
    return tuple(host for host in routed if echo.answers(host, timeout_s=ECHO_S))


def _is_of_a_link(host: str) -> bool:
    return ip_address(host.partition("%")[0]) in LINK_LOCAL


def prepare_removal(name: str, record: Mapping[str, Any] | None) -> tuple[Look, Leaving]:
    """Look at the host, and ask the gateways through each member of a bond."""
    look = snapshot.take(("default", name, *(record or {}).get("members", ())))
    bond = look.link(name)
    if bond is None:
        return look, Leaving()
    (owner,) = owners.look(Reader(Path("/")), {name: bond.index})
    near, far = split_targets(targets_of(record), belongings(look, name))
    members = [port.name for port in look.ports_of(bond.index)] if near else []
    dead = {one for one in members if ask(one, near, timeout_s=ASK_S).verdict is Known.NO}
    echoing = pings((*near, *far))
    return look, Leaving(owner, frozenset(dead), echoing, holding.networkd_files())
