"""The bond that the configuration asks for, in terms of the NICs of this host. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from linkhold.config.settings import MacPolicy
from linkhold.decide.bonding.steps import Refusal
from linkhold.rtnl.bond import MODE_ACTIVE_BACKUP, SELECT_FAILURE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from linkhold.config.settings import BondSettings
    from linkhold.model.survey import Nic, Survey

ARPHRD_ETHER, ARPHRD_INFINIBAND = 1, 32
MEMBER_TYPES = frozenset({ARPHRD_ETHER, ARPHRD_INFINIBAND})
"""What can be a member; of linux/if_arp.h. The loopback interface is of another type."""
NEEDS_NO_MEMBERS = ("mode", "fail_over_mac")
"""Options that the kernel changes without members only (BOND_OPTFLAG_NOSLAVES, bond_options.c)."""
FAIL_OVER_MACS = {MacPolicy.NONE: 0, MacPolicy.ACTIVE: 1, MacPolicy.FOLLOW: 2}


class Hardware(Protocol):
    """What tells NICs apart, whoever looked at them."""

    @property
    def name(self) -> str:
        """The interface's name."""

    @property
    def perm_mac(self) -> str:
        """The burned-in MAC, not the one that a bond gives to its members."""

    @property
    def bus_path(self) -> str:
        """Where it is plugged in, such as ``0000:3b:00.0``."""

    @property
    def vf(self) -> bool:
        """Whether it is a virtual function."""

    @property
    def hw_type(self) -> int:
        """ARPHRD_* of linux/if_arp.h."""


AnyNic = TypeVar("AnyNic", bound=Hardware)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One entry of ``bonds:`` with its members found: names, in the order of the file."""

    name: str
    settings: BondSettings
    members: tuple[str, ...]
    primary: str
    fail_over_mac: int

    @property
    def options(self) -> dict[str, object]:
        """Every option that the bond shall have; each is sent and read back.

        None of the ARP monitor's: setting miimon switches that monitor off (bond_options.c).
        primary_reselect is failure, since linkhold moves back itself, after checking the path.
        """
        settings = self.settings
        return {
            "mode": MODE_ACTIVE_BACKUP,
            "miimon": settings.miimon_ms,
            "updelay": settings.updelay_ms,
            "downdelay": settings.downdelay_ms,
            "peer_notif_delay": settings.peer_notif_delay_ms,
            "primary_reselect": SELECT_FAILURE,
            "fail_over_mac": self.fail_over_mac,
            "resend_igmp": 1,
            "num_peer_notif": settings.peer_notifications,
            "all_slaves_active": 0,
        }


def find_nic(nics: Iterable[AnyNic], member: str) -> AnyNic | None:
    """Return the NIC that ``member`` of the configuration means: name, permanent MAC or bus path.

    The permanent MAC counts and not the present one, which inside a bond is the bond's.
    """
    known = tuple(nics)
    by_name = next((nic for nic in known if nic.name == member), None)
    if by_name is not None:
        return by_name
    wanted = member.lower()
    return next((nic for nic in known if wanted in {nic.perm_mac, nic.bus_path}), None)


def with_members(name: str, settings: BondSettings, found: Mapping[str, Hardware]) -> Wanted:
    """Return what is wanted with the NICs that were found, by the words of the configuration."""
    primary = found.get(settings.primary or settings.members[0])
    return Wanted(
        name,
        settings,
        tuple(nic.name for nic in found.values()),
        primary.name if primary else "",
        _fail_over_mac(settings.fail_over_mac, tuple(found.values())),
    )


def without(wanted: Wanted, spare: Collection[str]) -> Wanted:
    """Return what is wanted of a bond whose members ``spare`` are left alone."""
    members = tuple(name for name in wanted.members if name not in spare)
    return replace(
        wanted, members=members, primary="" if wanted.primary in spare else wanted.primary
    )


def with_mtu(wanted: Wanted, mtu: int) -> Wanted:
    """Return what is wanted with the MTU that it has now, where none is configured.

    Profiles need it: at a boot there is no NIC whose MTU the bond could take.
    """
    if wanted.settings.mtu_bytes:
        return wanted
    return replace(wanted, settings=replace(wanted.settings, mtu_bytes=mtu))


def resolve(
    name: str, settings: BondSettings, survey: Survey
) -> tuple[Wanted, tuple[Refusal, ...]]:
    """Return what is wanted on this host, and a refusal for each member that is not here."""
    found: dict[str, Nic] = {}
    refusals = []
    for member in settings.members:
        nic = find_nic(survey.nics, member)
        if nic is None:
            refusals.append(_absent(name, member, survey))
        elif nic.name in {other.name for other in found.values()}:
            remedy = f"name it once under bonds.{name}.members"
            refusals.append(Refusal(member, f"is {nic.name}, which is named already", remedy))
        else:
            found[member] = nic
    return with_members(name, settings, found), tuple(refusals)


def _absent(bond: str, member: str, survey: Survey) -> Refusal:
    """Return the refusal of a member that no NIC is; a MAC that one has only now is told."""
    has = next((nic for nic in survey.nics if nic.mac == member.lower()), None)
    if has is not None and has.hw_type in MEMBER_TYPES:
        own = f", whose permanent one is {has.perm_mac}" if has.perm_mac else ""
        reason = f"the MAC that {has.name} has at present{own}; a member's permanent MAC counts"
        remedy = f"write {has.perm_mac or has.name} under bonds.{bond}.members"
        return Refusal(member, reason, remedy)
    remedy = f"plug it in, or write one of {_names(survey)} under bonds.{bond}.members"
    return Refusal(member, "no such NIC on this host", remedy)


def _names(survey: Survey) -> str:
    physical = [
        nic.name
        for nic in survey.nics
        if (not nic.kind or nic.kind == "veth") and nic.hw_type in MEMBER_TYPES
    ]
    return ", ".join(sorted(physical)[:12]) or "the NICs of this host"


def _fail_over_mac(policy: MacPolicy, nics: tuple[Hardware, ...]) -> int:
    """Choose active where MACs cannot be copied: IPoIB never can, a VF only when trusted.

    bond_enslave() forces active for a first port without ndo_set_mac_address; a VF's PF drops
    frames with a copied MAC (spoof check), which only shows at the first failover.
    """
    if policy is not MacPolicy.AUTO:
        return FAIL_OVER_MACS[policy]
    return 1 if any(nic.vf or nic.hw_type == ARPHRD_INFINIBAND for nic in nics) else 0
