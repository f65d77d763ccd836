"""Facts of a healthy host, and of parts of ill ones, for rules of the diagnosis."""

from __future__ import annotations

from dataclasses import replace

from linkhold.model import Address, BondOptions, BondPort, DefaultRoute, HostNetwork, Link
from linkhold.model.diagnosis_facts import (
    ClockFacts,
    Counted,
    Facts,
    GatewayFacts,
    LogFacts,
    SessionFacts,
)
from linkhold.model.look import Look, LookedAddress, LookedLink, LookedRoute
from linkhold.model.probes import Answer, Heard

GATEWAY = "10.0.0.1"
ETH0 = Link(2, "eth0", admin_up=True, carrier=True, mtu=1500)
OPTIONS = BondOptions(mode=1, active=3, miimon_ms=100)


def gateway(heard: Heard = Heard.ANSWERS, *others: Answer, address: str = GATEWAY) -> GatewayFacts:
    """Return a gateway on eth0 that said this."""
    answer = Answer("arp", address, heard, 0.3 if heard is Heard.ANSWERS else None, link="eth0")
    return GatewayFacts("eth0", address, answer, others)


def route(destination: str = "default", via: str = GATEWAY, *indexes: int) -> LookedRoute:
    """Return a route of the main table."""
    return LookedRoute("inet", 254, destination, via, 0, 3, 1, indexes or (2,))


def look(*, address: str = "10.0.0.2/24", routes: tuple[LookedRoute, ...] | None = None) -> Look:
    """Return one NIC with one address and a default route."""
    own = (LookedAddress(2, "inet", address, 0, 0x80),) if address else ()
    given = (route(), route("10.0.0.0/24", "")) if routes is None else routes
    return Look((LookedLink(2, "eth0", admin_up=True, carrier=True, mtu=1500),), own, given)


def network(*links: Link) -> HostNetwork:
    """Return a host of these links, by default eth0 alone, with a default route over the first."""
    given = links or (ETH0,)
    first = given[0].index
    return HostNetwork(
        {link.index: link for link in given},
        frozenset({Address(first, "inet", "10.0.0.2", 24)}),
        frozenset({DefaultRoute("inet", first, GATEWAY)}),
    )


def bonded(*members: Link, options: BondOptions = OPTIONS, carrier: bool = True) -> HostNetwork:
    """Return bond0 (index 2, the one with the address) with these members."""
    bond = Link(2, "bond0", "bond", admin_up=True, carrier=carrier, mtu=1500, bond=options)
    return network(bond, *members)


def member(index: int, *, carrier: bool = True, admin_up: bool = True, mii: str = "") -> Link:
    """Return eth0 (index 3) or eth1 (4) as a member of bond0."""
    port = BondPort("active", mii or ("up" if carrier else "down"))
    return replace(
        ETH0, index=index, name=f"eth{index - 3}", carrier=carrier, admin_up=admin_up, master=2,
        port=port,
    )  # fmt: skip


def facts(**other: object) -> Facts:
    """Return what is seen of a healthy host, with ``other`` in place of some of it."""
    healthy = Facts(
        look=look(),
        network=network(),
        nics=("eth0",),
        counters=(Counted("eth0", {"rx_crc_errors": 7}, {"rx_crc_errors": 7}, 1.0),),
        cards=(),
        duplicates=(),
        gateways=(gateway(),),
        members=(),
        targets=(),
        mtu=(),
        dns=(Answer("dns", "10.0.0.53", Heard.ANSWERS),),
        metadata=(),
        log=LogFacts(),
        fills=(),
        sessions=SessionFacts(),
        clock=ClockFacts(synced=True, wall_s=2e9, floor_s=1e9),
        owners=(),
    )
    return replace(healthy, **other)  # type: ignore[arg-type]
