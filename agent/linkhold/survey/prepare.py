"""Everything that a plan for one bond is made from: looked up and asked, nothing changed."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.decide.bonding.objects import belongings
from linkhold.decide.bonding.plan import Asked, live_member, split_targets
from linkhold.decide.bonding.wanted import resolve
from linkhold.survey import echo, holding, host, snapshot
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.settings import BondSettings
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look
    from linkhold.model.survey import Survey

ASK_S = 2.0
ECHO_S = 0.5


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
    asked = replace(_ask(wanted, look), holding=held)
    return Prepared(look, survey, asked)


def _ask(wanted: Wanted, look: Look) -> Asked:
    live = live_member(wanted, look)
    standing = look.link(wanted.name)
    carrier = wanted.name if standing is not None else live
    near, far = split_targets(wanted.settings, belongings(look, carrier))
    answers = {
        member: ask(member, near, timeout_s=ASK_S)
        for member in wanted.members
        if near and member != live and standing is None and look.link(member) is not None
    }
    hosts = dict.fromkeys((*far, *_own_session()))
    pings = tuple(h for h in hosts if echo.answers(h, timeout_s=ECHO_S))
    return Asked(answers, pings)


def _own_session() -> Iterator[str]:
    """Yield the address from which the operator's SSH session comes, if there is one.

    SSH_CONNECTION holds it (ssh(1)); sudo drops the variable unless told otherwise.
    """
    for variable in ("SSH_CONNECTION", "SSH_CLIENT"):
        address = os.environ.get(variable, "").partition(" ")[0]
        try:
            ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            continue
        yield address
        return
