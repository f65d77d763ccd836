"""What a person should know before a bond is made, and what does not speak against it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bonding.objects import belongings
from linkhold.model.look import IFA_F_PERMANENT
from linkhold.model.survey import Known, OwnerKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look
    from linkhold.model.survey import Answer, Survey

ACTIVE = 1
"""fail_over_mac active (linux/if_bonding.h)."""


FOREIGN = {
    OwnerKind.NETWORKD: "write the same into the [Bond] section of its .netdev (and Bond= into the "
    ".network of each member)",
    OwnerKind.NETWORK_MANAGER: "write the same into its profile (nmcli connection modify ... "
    "+bond.options ...)",
    OwnerKind.IFUPDOWN: "write the same into /etc/network/interfaces (bond-...)",
    OwnerKind.IFUPDOWN2: "write the same into /etc/network/interfaces (bond-...)",
}
"""Where the options of a bond are written that another program makes."""


def all_of(
    wanted: Wanted,
    survey: Survey,
    look: Look,
    answers: Mapping[str, Answer],
    asked: tuple[str, ...],
    live: str,
) -> Iterator[str]:
    """Yield every warning but those about files; ``asked`` can be asked on the wire."""
    yield from _about_carrying(wanted, look, asked, live)
    yield from _about_nics(wanted, survey)
    yield from _about_a_dead_nic(wanted, look, answers, live)
    for name, answer in answers.items():
        if answer.verdict is Known.UNKNOWN:
            yield f"{name}: whether the gateway answers through it is unknown ({answer.reason})"
    yield from _about_owners(wanted, survey)
    if survey.jobs.unread:
        yield (
            f"{survey.jobs.unread} processes could not be looked at for NCCL_SOCKET_IFNAME and "
            "the like; plan as root to see them"
        )
    if survey.cloud_init.rewrites is Known.UNKNOWN:
        yield f"cloud-init: {survey.cloud_init.reason}"


def about_files(
    wanted: Wanted,
    survey: Survey,
    look: Look,
    live: str,
    client: Mapping[str, str],
    mentions: tuple[tuple[str, str], ...],
) -> Iterator[str]:
    """Yield what does not follow the move in files of others; ``client`` is networkd's identity."""
    for file, member in mentions:
        yield f"{file} names {member}: firewall rules do not follow, name {wanted.name} there too"
    owner = survey.owner(live)
    leased = [
        one.address
        for one in belongings(look, live).routable
        if one.address.endswith("/128") and not one.flags & IFA_F_PERMANENT
    ]
    if leased and owner is not None and owner.native and not client:
        yield (
            f"{leased[0]} seems to be leased by DHCPv6, whose client is told apart by the "
            f"interface's name: on {wanted.name} the server may lease another address"
        )


def about_foreign(wanted: Wanted, survey: Survey) -> Iterator[str]:
    """Yield that a bond which others made is changed live only, and who will set it back."""
    owner = survey.owner(wanted.name)
    if owner is None or owner.kind is OwnerKind.NOBODY:
        yield (
            f"{wanted.name} was made by somebody else: only the standing bond is changed; change "
            "what makes it as well, or the next boot sets it back"
        )
        return
    who = "something unknown" if owner.kind is OwnerKind.UNKNOWN else owner.kind.value
    yield (
        f"{wanted.name} is configured by {who}, and only the standing bond is changed: the next "
        f"boot, if not the next restart of {who}, sets it back; "
        f"{FOREIGN.get(owner.kind, 'change its configuration as well')}"
    )


def _about_a_dead_nic(
    wanted: Wanted, look: Look, answers: Mapping[str, Answer], live: str
) -> Iterator[str]:
    """Yield that the NIC which shall join last does not work now, so that the change must fail."""
    link, answer = look.link(live), answers.get(live)
    if link is None:
        return
    end = f"it cannot join {wanted.name}, and the change would be undone; mend it first"
    if not link.carrier:
        yield f"{live} carries the addresses and has no link now (cable, switch port): {end}"
    elif answer is not None and answer.verdict is Known.NO:
        yield f"no gateway answers now through {live}, which carries the addresses: {end}"


def _about_carrying(wanted: Wanted, look: Look, asked: tuple[str, ...], live: str) -> Iterator[str]:
    if len(wanted.members) == 1:
        yield f"{wanted.name} has one member: it protects nothing until a second one joins"
    if not live:
        yield f"no member has an address: {wanted.name} will carry nothing until it gets one"
    elif not asked:
        yield (
            "no gateway and no target in a network of this host: the path cannot be verified; "
            f"name one under bonds.{wanted.name}.targets, or use apply --manual"
        )
    for name in wanted.members:
        leased = ", ".join(one.address for one in belongings(look, name).routable)
        if name != live and leased:
            yield f"{name} gives up the address that was leased for it ({leased})"


def _about_owners(wanted: Wanted, survey: Survey) -> Iterator[str]:
    owners = [owner for name in wanted.members if (owner := survey.owner(name)) is not None]
    generated = [owner.name for owner in owners if owner.netplan]
    if generated:
        yield (
            f"netplan's YAML for {', '.join(generated)} stays, without effect from now on: "
            f"{wanted.name} is configured by files of its own"
        )


def _about_nics(wanted: Wanted, survey: Survey) -> Iterator[str]:
    nics = [nic for name in wanted.members if (nic := survey.nic(name)) is not None]
    rdma = [nic.name for nic in nics if nic.rdma]
    if rdma:
        yield (
            f"{', '.join(rdma)} also carries RDMA, which a bond does not protect; some drivers "
            "(mlx5) merge the RDMA devices of a bond's members: not while jobs use them"
        )
    if any(nic.vf for nic in nics) and wanted.fail_over_mac != ACTIVE:
        yield "a member is a virtual function: without fail_over_mac active its switch drops it"
    for nic in nics:
        if nic.cloud is not None and not nic.cloud.certain:
            yield f"{nic.name}: {nic.cloud.reason}; a bond works only where that network allows it"
