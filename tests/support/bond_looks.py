"""Looks at a host that has eth0 with a network and eth1 without, made by hand."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.config.settings import BondSettings
from linkhold.model.look import Look, LookedAddress, LookedLink, LookedRoute
from linkhold.model.survey import CloudInit, Known, Nic, Owner, OwnerKind, RootView, Survey
from linkhold.rtnl.attributes import pack, u32

if TYPE_CHECKING:
    from linkhold.decide.bonding import steps

MACS = {"eth0": "02:00:00:00:01:00", "eth1": "02:00:00:00:01:01"}
SETTINGS = BondSettings(members=("eth0", "eth1"))
CALM = CloudInit(Known.NO, "disabled")


def link(name: str, index: int, **more: Any) -> LookedLink:
    """Return a NIC that is up."""
    seen = {"admin_up": True, "carrier": True, "mac": MACS.get(name, ""), "mtu": 1500}
    return LookedLink(index, name, **{**seen, **more})


def address(index: int, text: str) -> LookedAddress:
    """Return an IPv4 address with the bytes that the kernel would tell."""
    host, _, length = text.partition("/")
    packed = bytes(map(int, host.split(".")))
    raw = struct.pack("=BBBBI", 2, int(length), 128, 0, index) + pack(1, packed) + pack(2, packed)
    return LookedAddress(index, "inet", text, 0, 128, raw)


def route(index: int, destination: str, gateway: str = "", **more: Any) -> LookedRoute:
    """Return an IPv4 route of table main."""
    seen = {"metric": 0, "protocol": 3, "kind": 1, "table": 254, **more}
    raw = struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, seen["protocol"], 0, 1, 0) + u32(4, index)
    return LookedRoute(
        "inet", destination=destination, gateway=gateway, indexes=(index,), raw=raw, **seen
    )


LOOK = Look(
    links=(link("eth0", 2), link("eth1", 3)),
    addresses=(address(2, "10.0.0.2/24"),),
    routes=(route(2, "10.0.0.0/24", protocol=2), route(2, "default", "10.0.0.1")),
)
SURVEY = Survey(
    nics=tuple(
        Nic(name, 2 + n, mac=mac, perm_mac=mac) for n, (name, mac) in enumerate(MACS.items())
    ),
    owners=tuple(Owner(OwnerKind.NOBODY, name) for name in MACS),
    root=RootView(Known.NO),
    cloud_init=CALM,
)


def with_nic(name: str, **more: Any) -> Survey:
    """Return the survey with other facts about one NIC."""
    nics = tuple(replace(nic, **more) if nic.name == name else nic for nic in SURVEY.nics)
    return replace(SURVEY, nics=nics)


def with_owner(name: str, kind: OwnerKind, **more: Any) -> Survey:
    """Return the survey with another owner of one NIC."""
    owners = tuple(Owner(kind, o.name, **more) if o.name == name else o for o in SURVEY.owners)
    return replace(SURVEY, owners=owners)


def titles(one: steps.Plan) -> list[str]:
    """Return what the phases of a plan are called."""
    return [phase.title for phase in one.phases]


def standing(**options: object) -> Look:
    """Return a host whose bond0 of eth0 and eth1, made as wanted, carries the address."""
    seen = {"mode": 1, "miimon": 50, "updelay": 0, "downdelay": 0, "peer_notif_delay": 100}
    seen |= {"primary_reselect": 2, "fail_over_mac": 0, "resend_igmp": 1, "num_peer_notif": 3}
    seen |= {"all_slaves_active": 0, "primary": 2, "active_slave": 2}
    ports = tuple(replace(one, master=9, port={"mii_status": 0}) for one in LOOK.links)
    bond = link("bond0", 9, kind="bond", mac=MACS["eth0"], bond={**seen, **options})
    return Look(
        links=(*ports, bond),
        addresses=(address(9, "10.0.0.2/24"),),
        routes=(route(9, "10.0.0.0/24", protocol=2), route(9, "default", "10.0.0.1")),
    )
