"""What a person should know before a bond is made, and what does not speak against it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bonding.objects import belongings
from linkhold.model.look import IFA_F_PERMANENT
from linkhold.model.survey import Known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look
    from linkhold.model.survey import Answer, Survey

ACTIVE = 1
"""fail_over_mac active (linux/if_bonding.h)."""


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
