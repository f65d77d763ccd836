"""When a bond must not be made, and what to do about it: each reason with its remedy. Pure.

Every rule here is a way in which nodes were lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.decide.bonding import networkd
from linkhold.decide.bonding.objects import belongings
from linkhold.decide.bonding.steps import Refusal
from linkhold.decide.bonding.wanted import MEMBER_TYPES
from linkhold.model.look import IFA_F_PERMANENT
from linkhold.model.survey import Known, OwnerKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look
    from linkhold.model.survey import Answer, Nic, Owner, Survey

ROUTING_DAEMONS = {
    11: "zebra",
    12: "BIRD",
    42: "babel",
    186: "BGP",
    187: "IS-IS",
    188: "OSPF",
    189: "RIP",
    192: "EIGRP",
}
"""RTPROT_* of linux/rtnetlink.h."""
HAND_OVER = {
    OwnerKind.IFUPDOWN: "in /etc/network/interfaces write `iface {nic} inet manual` without auto "
    "or allow-hotplug, end its dhclient with `dhclient -x {nic}`, then plan again",
    OwnerKind.IFUPDOWN2: "take `auto {nic}` and its addresses out of /etc/network/interfaces "
    "(linkhold makes the bond), then plan again",
    OwnerKind.WICKED: "remove /etc/sysconfig/network/ifcfg-{nic}, set STARTMODE='off' or leave "
    "wicked (systemctl disable --now wicked), then plan again",
    OwnerKind.DHCPCD: "write `denyinterfaces {members} {bond}` into /etc/dhcpcd.conf, configure "
    "a fixed address, then plan again",
    OwnerKind.DHCLIENT: "end it without giving the lease back (dhclient -x {nic}) and configure a "
    "fixed address, or let systemd-networkd or NetworkManager own {nic}, then plan again",
    OwnerKind.CONNMAN: "add {members} to NetworkInterfaceBlacklist in /etc/connman/main.conf, "
    "restart connman, then plan again",
    OwnerKind.UNKNOWN: "run the plan as root, so that it can see who configures {nic}",
}


def host_refusals(wanted: Wanted, look: Look, survey: Survey) -> Iterator[Refusal]:
    """Yield what speaks against the bond on this host, members and their owners apart."""
    standing = look.link(wanted.name)
    if standing is not None and standing.kind != "bond":
        kind = standing.kind or "a NIC"
        reason = f"an interface of this name is there, and is no bond ({kind})"
        yield Refusal(wanted.name, reason, "choose another name under bonds:")
    for member in sorted(survey.root.interfaces & set(wanted.members)):
        mounts = ", ".join(m.mount for m in survey.root.mounts if member in m.carriers)
        reason = f"the system's own files ({mounts}) come over it"
        remedy = "make the bond in the initramfs (dracut bond=..., rd.neednet), not while it runs"
        yield Refusal(member, reason, remedy)
    if survey.root.over_network is Known.YES and not survey.root.interfaces:
        yield Refusal(
            wanted.name,
            "the root file system comes over the network, over an interface that was not found",
            "make the bond in the initramfs (dracut bond=..., rd.neednet), not while it runs",
        )
    yield from _jobs(wanted, survey)
    kinds = {o.name: o.kind for o in survey.owners if o.name in wanted.members}
    owners = {kind for kind in kinds.values() if kind is not OwnerKind.NOBODY}
    if len(owners) > 1:
        said = ", ".join(f"{name} by {kind.value}" for name, kind in kinds.items())
        remedy = "let one of them configure all members, then plan again"
        yield Refusal(
            wanted.name, f"its members are configured by different programs ({said})", remedy
        )
    if survey.cloud_init.rewrites is Known.YES:
        yield Refusal(
            "cloud-init",
            f"would write the network anew at the next boot ({survey.cloud_init.reason})",
            "write `network: {config: disabled}` into "
            "/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg",
        )


def of_its_own(
    wanted: Wanted, look: Look, record: Mapping[str, Any], live: str
) -> Iterator[Refusal]:
    """Yield that a bond of the name was made before and is gone, or stands there empty."""
    if look.link(wanted.name) is None and record:
        yield _gone(wanted.name, record)
    elif not record:
        yield from _empty(wanted, look, live)


def _gone(bond: str, record: Mapping[str, Any]) -> Refusal:
    """Return why a bond that was made here and vanished is not planned anew.

    Its members have nothing any more, or what a boot gave back: a plan from that would be committed
    over the record, the only place in which the bond's addresses and routes are left.
    """
    carried = ", ".join(record.get("addresses", ())) or "nothing"
    return Refusal(
        bond,
        f"was made here and is gone; its record has what it carried ({carried})",
        f"make it again with: linkhold bond repair {bond}; or give it up with: linkhold restore, "
        "which leaves that on its NIC",
    )


def _empty(wanted: Wanted, look: Look, live: str) -> Iterator[Refusal]:
    """Yield that an empty bond stands in the way of one which would take ``live`` over.

    ``modprobe bonding`` makes a bond0 without members, unless max_bonds=0 is given.
    """
    standing = look.link(wanted.name)
    if standing is None or standing.kind != "bond" or not live or look.ports_of(standing.index):
        return
    if belongings(look, wanted.name).empty:
        yield Refusal(
            wanted.name,
            "is there already, without members and addresses (loading the bonding module makes "
            "such a one), so that nothing could move into it without a gap",
            f"remove the empty one (ip link del {wanted.name}), then plan again",
        )


def _jobs(wanted: Wanted, survey: Survey) -> Iterator[Refusal]:
    for pin in survey.jobs.pins:
        if pin.member in wanted.members:
            who = f"process {pin.pid} ({pin.command})" if pin.pid else pin.source
            yield Refusal(
                who,
                f"{pin.variable}={pin.value} ties it to {pin.member}, which will have no address",
                f"wait for the job to end, and set {pin.variable}={wanted.name} (or unset it)",
            )


def member_refusals(wanted: Wanted, nic: Nic, look: Look) -> Iterator[Refusal]:
    """Yield what speaks against one NIC as a member."""
    if nic.cloud is not None and nic.cloud.certain:
        remedy = "leave it alone: use uplinks: for a second way out of a cloud machine"
        yield Refusal(nic.name, f"a cloud NIC ({nic.cloud.reason})", remedy)
    if nic.netvsc_partner:
        reason = f"the other half of {nic.netvsc_partner} (Hyper-V accelerated networking)"
        yield Refusal(nic.name, reason, "leave the pair alone; Azure fails over by itself")
    if nic.wireless:
        reason = "a wireless NIC sends under its own MAC only"
        yield Refusal(nic.name, reason, "use uplinks: for it")
    yield from _uppers(wanted, nic)
    if nic.xdp:
        reason = "an XDP program is attached, which would not see the bond's traffic"
        yield Refusal(nic.name, reason, "detach it (ip link set dev ... xdp off), then plan again")
    link = look.link(nic.name)
    if link is not None and nic.hw_type not in MEMBER_TYPES:
        reason = f"no Ethernet or InfiniBand interface (ARPHRD {nic.hw_type})"
        yield Refusal(nic.name, reason, "name another NIC")


def _uppers(wanted: Wanted, nic: Nic) -> Iterator[Refusal]:
    on_top = [upper for upper in nic.uppers if upper.name != wanted.name]
    masters = [upper for upper in on_top if upper.master and upper.kind != "netvsc"]
    for master in masters:
        remedy = f"take it out first (ip link set {nic.name} nomaster), where that is meant"
        yield Refusal(nic.name, f"belongs to {master.name} ({master.kind})", remedy)
    shared = [upper for upper in on_top if not upper.master]
    if shared:
        names = ", ".join(f"{upper.name} ({upper.kind})" for upper in shared)
        them = "it" if len(shared) == 1 else "them"
        reason = f"has {names} on top, which would stay on the member and not fail over"
        remedy = f"remove {them}, apply, and make {them} anew on {wanted.name}"
        yield Refusal(nic.name, reason, remedy)


def owner_refusals(wanted: Wanted, owner: Owner, *, live: bool) -> Iterator[Refusal]:
    """Yield what speaks against taking a NIC from whoever configures it."""
    fill = {
        "nic": owner.name,
        "bond": wanted.name,
        "members": " ".join(wanted.members),
    }
    evidence = f" ({owner.evidence[0]})" if owner.evidence else ""
    if not owner.native and owner.kind is not OwnerKind.NOBODY:
        name = "something unknown" if owner.kind is OwnerKind.UNKNOWN else owner.kind.value
        doubt = f" ({owner.unknown[0]})" if owner.unknown else evidence
        reason = f"is configured by {name}{doubt}, to which a bond cannot be handed over"
        yield Refusal(owner.name, reason, HAND_OVER[owner.kind].format(**fill))
    elif owner.connection_uuid and live and not _is_keyfile(owner.profile_files):
        reason = "its profile is no keyfile of NetworkManager's, from which the bond's is made"
        remedy = f"nmcli connection migrate {owner.connection_uuid}, then plan again"
        yield Refusal(owner.name, reason, remedy)
    elif owner.kind is OwnerKind.NETWORKD and _outranks(owner.profile_files):
        reason = f"{owner.profile_files[0]} sorts before {networkd.PREFIX}{wanted.name}"
        remedy = "rename it (10-...), restart systemd-networkd, then plan again"
        yield Refusal(owner.name, f"{reason}, so that it would win at boot", remedy)
    elif owner.dhcp and not owner.native and live:
        reason = "has its address by DHCP, and nobody would renew the lease on the bond"
        remedy = "let systemd-networkd or NetworkManager own it, or configure a fixed address"
        yield Refusal(owner.name, reason, remedy)


def _is_keyfile(files: tuple[str, ...]) -> bool:
    return bool(files) and not files[0].rpartition("/")[2].startswith("ifcfg-")


def _outranks(files: tuple[str, ...]) -> bool:
    """Whether networkd would take the first of ``files`` before those of a bond."""
    return bool(files) and files[0].rpartition("/")[2] < networkd.PREFIX


def standby_refusals(
    wanted: Wanted, look: Look, live: str, answers: dict[str, Answer], owners: dict[str, Owner]
) -> Iterator[Refusal]:
    """Yield what speaks against the members that shall stand by.

    An address that its manager leased for it is no reason: the manager lets go of it.

    ``answers`` says for each of them whether the gateway answers through it.
    """
    for name in wanted.members:
        link = look.link(name)
        if name == live or link is None:
            continue
        owner = owners.get(name)
        fixed = fixed_addresses(look, name)
        if owner is None or not owner.native:
            fixed = tuple(one.address for one in belongings(look, name).routable)
        if fixed:
            reason = f"has addresses of its own ({', '.join(fixed)}), as {live or 'others'} has"
            yield Refusal(name, reason, others_remedy(wanted, name))
        answer = answers.get(name)
        if answer is not None and answer.verdict is Known.NO:
            reason = f"no gateway answers through it ({answer.reason})"
            remedy = "check its cable, switch port and VLAN: a standby that cannot carry is none"
            yield Refusal(name, reason, remedy)


def others_remedy(wanted: Wanted, name: str) -> str:
    """Return what to do about a member's own addresses, which may be somebody's only way here."""
    return (
        f"leave {name} out of bonds.{wanted.name}.members; or, where nothing uses them (nor you "
        f"to come here), take them out of its profile and off it (ip address del ADDRESS dev "
        f"{name}), then plan again"
    )


def routing_refusals(wanted: Wanted, look: Look, live: str) -> Iterator[Refusal]:
    """Yield the routing daemons whose routes use the NIC: they would go on writing to it."""
    daemons = {ROUTING_DAEMONS.get(route.protocol) for route in belongings(look, live).routes}
    for daemon in sorted(name for name in daemons if name is not None):
        reason = f"has routes of a routing daemon ({daemon}), which would go on using {live}"
        remedy = f"stop it, configure {wanted.name} in it in the place of {live}, apply, start it"
        yield Refusal(live, reason, remedy)


def fixed_addresses(look: Look, name: str) -> tuple[str, ...]:
    """Return the addresses of an interface that were not leased (DHCP, router advertisement)."""
    mine = belongings(look, name).routable
    return tuple(one.address for one in mine if one.flags & IFA_F_PERMANENT)
