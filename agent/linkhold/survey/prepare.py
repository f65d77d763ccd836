"""Everything that a plan for one bond is made from: looked up and asked, nothing changed."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.decide.bonding.objects import belongings
from linkhold.decide.bonding.plan import Asked, live_member, split_targets
from linkhold.decide.bonding.wanted import resolve
from linkhold.survey import echo, host, snapshot
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.settings import BondSettings
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look
    from linkhold.model.survey import Owner, Survey

ASK_S = 2.0
ECHO_S = 0.5
IAID_END = 10
"""Hexadecimal digits up to the end of the IAID in a client identifier of type 255 (RFC 4361)."""


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
    named = [member for member in settings.members if first.link(member) is not None]
    survey = host.look(tuple(dict.fromkeys((*named, *hardware))), name)
    wanted, _ = resolve(name, settings, survey)
    look = snapshot.take(("default", name, *wanted.members))
    live = live_member(wanted, look)
    owner = survey.owner(live or next(iter(wanted.members), ""))
    link = look.link(live)
    profile, unread = _profile(owner) if owner is not None else ("", ())
    asked = replace(
        _ask(wanted, look),
        profile=profile,
        unread=unread,
        client=dhcp_client(link.index) if link is not None else {},
    )
    return Prepared(look, survey, asked)


def _profile(owner: Owner) -> tuple[str, tuple[str, ...]]:
    """Return the text that configures a NIC, and why some of it could not be read.

    netplan's own YAML is only what that text was made from.
    """
    files = [Path(name) for name in owner.profile_files if not name.endswith((".yaml", ".yml"))]
    texts, unread = [], []
    for file in files:
        try:
            texts.append(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            unread.append(f"{file}, which configures {owner.name}, cannot be read: {error}")
    return "\n".join(texts), tuple(unread)


def dhcp_client(index: int, netif: Path = Path("/run/systemd/netif")) -> dict[str, str]:
    """Return what keeps networkd's DHCPv4 identity when the lease moves to another interface.

    The IAID is made from the interface's name (sd-dhcp-client), so that a bond would be another
    client to the server. The lease file has the identity that was used: ff, IAID, DUID.
    """
    try:
        lines = (netif / "leases" / str(index)).read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    for line in lines:
        key, _, value = line.partition("=")
        if key == "CLIENTID" and value.lower().startswith("ff") and len(value) > IAID_END:
            return {"IAID": str(int(value[2:IAID_END], 16))}
    return {}


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
