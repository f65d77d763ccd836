"""Steps that ask the own links: gateways, neighbours, members of bonds, addresses, full packets."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from linkhold.decide import bonds
from linkhold.decide.diagnosis.seen import DEAD, defaults, global_addresses
from linkhold.model import Unavailable
from linkhold.model.diagnosis_facts import Duplicate, GatewayFacts, MemberFacts, MtuFacts
from linkhold.model.probes import Heard
from linkhold.model.survey import Known
from linkhold.sensors import reach
from linkhold.survey import gateway as ports
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.diagnose.local import Seen
    from linkhold.model.look import LookedLink
    from linkhold.model.probes import Answer

GATEWAY_S = 1.5
OTHERS_S = 1.0
OTHERS_MOST = 4
CLAIM_S = 0.7
CLAIMS_MOST = 16
MEMBER_S = 1.0
ECHO_S = 0.8
HEADS = {4: 28, 6: 48}
"""Bytes of the IP and ICMP headers (RFC 791, 792, 8200)."""
USUAL_BYTES = (1500, 1450, 1400, 1280)
IFA_F_DADFAILED = 0x08
NUD_NOARP, NUD_FAILED = 0x40, 0x20
ARPHRD_ETHER = 1


async def gateways(seen: Seen) -> tuple[GatewayFacts, ...]:
    """Ask every gateway of a default route; where one is silent, its neighbours too."""
    wanted = dict.fromkeys(_gateways(seen))
    return tuple(await asyncio.gather(*(_gateway(seen, *one) for one in wanted)))


def _gateways(seen: Seen) -> Iterator[tuple[str, str]]:
    for route in defaults(seen.look):
        if route.gateway and route.indexes:
            yield seen.look.name_of(route.indexes[0]), route.gateway


async def _gateway(seen: Seen, link: str, address: str) -> GatewayFacts:
    answer = await reach.gateway(link, address, GATEWAY_S)
    if answer.heard not in DEAD:
        return GatewayFacts(link, address, answer)
    known = tuple(_neighbours(seen, link, address))[:OTHERS_MOST]
    others = await asyncio.gather(*(reach.gateway(link, one, OTHERS_S) for one in known))
    return GatewayFacts(link, address, answer, tuple(others))


def _neighbours(seen: Seen, link: str, but: str) -> Iterator[str]:
    """Yield hosts of the link that have been heard before, of the gateway's family."""
    found = seen.look.link(link)
    for one in seen.look.neighbours if found is not None else ():
        told = one.mac and not one.state & (NUD_NOARP | NUD_FAILED) and one.address != but
        same = found is not None and one.index == found.index
        if told and same and (":" in one.address) == (":" in but):
            yield one.address


async def duplicates(seen: Seen) -> tuple[Duplicate, ...]:
    """Ask for our own IPv4 addresses as a host does that is about to take them (RFC 5227).

    The kernel does that itself for IPv6 and marks the address (IFA_F_DADFAILED). Raises Unavailable
    where neither tells.
    """
    found = list(_refused(seen))
    if not found and not _may_ask():
        raise Unavailable("asking for own addresses by ARP needs root (CAP_NET_RAW)")
    jobs = [
        in_thread(lambda link=link, address=address: _claimed(seen, link, address))  # type: ignore[misc]
        for link, address in list(_own(seen))[:CLAIMS_MOST]
    ]
    found += [one for one in await asyncio.gather(*jobs) if one is not None]
    return tuple(found)


def _may_ask() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0).close()
    except OSError:
        return False
    return True


def _refused(seen: Seen) -> Iterator[Duplicate]:
    for address in seen.look.addresses:
        if address.flags & IFA_F_DADFAILED:
            name = seen.look.name_of(address.index)
            yield Duplicate(name, address.address.partition("/")[0])


def _own(seen: Seen) -> Iterator[tuple[LookedLink, str]]:
    for name in seen.nics:
        link = seen.look.link(name)
        if link is None or not link.carrier or link.hw_type != ARPHRD_ETHER:
            continue
        for address in global_addresses(seen.look, link.index):
            if address.family == "inet":
                yield link, address.address.partition("/")[0]


def _claimed(seen: Seen, link: LookedLink, address: str) -> Duplicate | None:
    answer = ports.ask(link.name, (address,), link.mac, CLAIM_S, 2)
    if answer.verdict is not Known.YES:
        return None
    # Another NIC of ours on the same wire answers too (arp_ignore 0), and so may a router that
    # does proxy ARP for everything: neither has our address.
    ours = {one.mac for one in seen.look.links} | {one.perm_mac for one in seen.look.links}
    routers = {n.mac for n in seen.look.neighbours if (n.address in _all_gateways(seen))}
    if answer.mac in ours or answer.mac in routers:
        return None
    return Duplicate(link.name, address, answer.mac)


def _all_gateways(seen: Seen) -> frozenset[str]:
    return frozenset(address for _, address in _gateways(seen))


async def members(seen: Seen) -> tuple[MemberFacts, ...]:
    """Ask the gateways through each good member of each bond, the standby ones too."""
    jobs = [
        in_thread(lambda b=bond, m=member, a=active, t=targets: _member(b, m, t, active=a))  # type: ignore[misc]
        for bond, member, active, targets in _members(seen)
    ]
    return tuple(await asyncio.gather(*jobs))


def _members(seen: Seen) -> Iterator[tuple[str, str, bool, tuple[str, ...]]]:
    for view in bonds.views(seen.network):
        over = _over(seen, view.index)
        targets = tuple(address for link, address in _gateways(seen) if link in over)
        for member in view.members if targets else ():
            if member.good:
                yield view.name, member.name, member.name == view.active, targets


def _over(seen: Seen, index: int) -> frozenset[str]:
    """Return a bond's name. What lies on a VLAN of it would need tagged questions."""
    return frozenset({seen.look.name_of(index)})


def _member(bond: str, member: str, targets: tuple[str, ...], *, active: bool) -> MemberFacts:
    return MemberFacts(bond, member, active, ports.ask(member, targets, timeout_s=MEMBER_S))


async def path_mtu(link: str, target: str, mtu_bytes: int, *, to_gateway: bool) -> MtuFacts | None:
    """Send an echo of the usual and one of the full size, neither to be split."""
    head = HEADS[6 if ":" in target else 4]
    if mtu_bytes <= head + 56:
        return None
    small, large = await asyncio.gather(
        reach.icmp(target, ECHO_S, link), _whole(link, target, mtu_bytes - head)
    )
    passes = 0
    if small.works and large.heard is Heard.SILENT:
        large = await _whole(link, target, mtu_bytes - head)  # one that is lost is no black hole
        passes = await _passes(link, target, mtu_bytes, head) if large.heard is Heard.SILENT else 0
    return MtuFacts(link, target, mtu_bytes, small, large, passes, to_gateway)


async def _passes(link: str, target: str, mtu_bytes: int, head: int) -> int:
    sizes = [size for size in USUAL_BYTES if size < mtu_bytes]
    answers = await asyncio.gather(*(_whole(link, target, size - head) for size in sizes))
    return next((size for size, one in zip(sizes, answers, strict=True) if one.works), 0)


async def _whole(link: str, target: str, payload_bytes: int) -> Answer:
    return await reach.icmp(target, ECHO_S, link, payload_bytes, dont_fragment=True)
