"""Rules about the first hop: gateway, switch, and packets of the full size. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.diagnosis.seen import (
    dead_gateways,
    on_link,
    reach,
    way_out_works,
)
from linkhold.decide.diagnosis.words import asking, listed
from linkhold.model.diagnosis import Place, State, Sure, Verdict
from linkhold.model.probes import Heard
from linkhold.model.survey import Known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.diagnosis_facts import Facts, GatewayFacts, MemberFacts, MtuFacts


def member_paths(facts: Facts) -> Iterator[Verdict]:
    """A member whose link is fine and through which nothing answers: the switch behind it.

    Told only where another member of the same bond hears an answer: else it is the gateway.
    """
    found = facts.members or ()
    for member in found:
        same = [one for one in found if one.bond == member.bond]
        if member.asked.verdict is Known.NO and any(o.asked.verdict is Known.YES for o in same):
            yield _silent_member(facts, member)


def _silent_member(facts: Facts, member: MemberFacts) -> Verdict:
    effect = "traffic goes there and is lost" if member.active else "a failover to it would fail"
    role = "active" if member.active else "standby"
    text = (
        f"the switch behind {member.member} ({role} member of {member.bond}) forwards nothing "
        f"though the link is up: {effect}"
    )
    state = State.DOWN if member.active and reach(facts) is State.DOWN else State.DEGRADED
    return Verdict(state, Place.SWITCH, Sure.LIKELY, text, (
        f"linkhold bond status {member.bond}", f"linkhold bond test {member.bond}",
        f"ethtool {member.member}",
    ))  # fmt: skip


def gateway_silent(facts: Facts) -> Iterator[Verdict]:
    """A gateway that answers neither ARP nor echoes, over a link with carrier."""
    for gateway in dead_gateways(facts):
        link = facts.network.by_name(gateway.link) if facts.network is not None else None
        if link is not None and not link.usable:
            continue
        if _is_astray(facts, gateway):
            continue  # told as a wrong netmask
        yield _silent(facts, gateway)


def _is_astray(facts: Facts, gateway: GatewayFacts) -> bool:
    link = facts.look.link(gateway.link) if facts.look is not None else None
    if facts.look is None or link is None:
        return False
    return not on_link(facts.look, link.index, gateway.address)


def _silent(facts: Facts, gateway: GatewayFacts) -> Verdict:
    alive = tuple(one.target for one in gateway.others if one.works)
    other = way_out_works(facts)
    state = State.DEGRADED if other else State.DOWN
    where = f"{gateway.address} on {gateway.link}"
    if alive:
        place, sure = Place.GATEWAY, Sure.LIKELY
        verb = "answer" if len(alive) > 1 else "answers"
        text = (
            f"the gateway {where} is dead: it is silent, while {listed(alive)} on its link {verb}"
        )
    elif gateway.others:
        place, sure = Place.SWITCH, Sure.LIKELY
        text = (
            f"nothing on {gateway.link} answers, neither the gateway {gateway.address} nor other "
            f"hosts ({listed(tuple(one.target for one in gateway.others))}), though the link is "
            "up: the switch or its VLAN"
        )
    else:
        place, sure = Place.GATEWAY, Sure.GUESS
        text = (
            f"the gateway {where} does not answer though the link is up: the gateway is dead, or "
            "the switch forwards nothing (no other host is known there to tell the two apart)"
        )
    if other and ":" in gateway.address:
        text += "; this is IPv6 alone"
    return Verdict(state, place, sure, text, (
        asking(gateway.link, gateway.address), f"ip neigh show dev {gateway.link}",
        f"tcpdump -c 20 -ni {gateway.link} arp or icmp",
    ))  # fmt: skip


def path_mtu(facts: Facts) -> Iterator[Verdict]:
    """Small packets come through, full ones vanish without a word: a black hole of the path MTU.

    A router that says how much passes is how the path MTU is found (RFC 1191), and no fault.
    """
    holes = [one for one in facts.mtu or () if one.small.works and one.large.heard is Heard.SILENT]
    near = {one.link for one in holes if one.to_gateway}
    for hole in holes:
        if hole.to_gateway or hole.link not in near:
            yield _black_hole(hole)


def _black_hole(hole: MtuFacts) -> Verdict:
    passes = f"; {hole.passes_bytes} bytes pass" if hole.passes_bytes else ""
    what = "the gateway" if hole.to_gateway else hole.target
    place = Place.SWITCH if hole.to_gateway else Place.BEYOND
    why = (
        f"switch or gateway carry less than the MTU of {hole.link}"
        if hole.to_gateway
        else "a router or tunnel on the way drops them and says nothing"
    )
    text = (
        f"packets of {hole.size_bytes} bytes to {what} vanish while small ones pass (MTU black hole"
        f"{passes}): {why}, so connections open and then hang"
    )
    host = hole.target.partition("%")[0]
    most = hole.passes_bytes or 1280
    return Verdict(State.DEGRADED, place, Sure.LIKELY, text, (
        f"ping -M do -s {hole.size_bytes - 28} {host}", f"tracepath -n {host}",
        f"ip link set {hole.link} mtu {most}",
    ))  # fmt: skip
