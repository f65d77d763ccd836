"""What bonds are asked for and cannot be, by the rules of the kernel or by plain sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.config.finding import Finding
from linkhold.config.schema import plain, shown
from linkhold.config.settings import Detect, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.schema import Key
    from linkhold.config.settings import BondSettings, Settings

IPV4_MTU_BYTES = 68
IPV6_MTU_BYTES = 1280
CHANGE_TIME_S = 10
"""What a change itself may take of the time until it is undone."""


def bond_contradictions(settings: Settings) -> Iterator[Finding]:
    """Yield every setting of a bond that disagrees with another one."""
    yield from _members(settings)
    for name, bond in settings.bonds.items():
        at: Key = ("bonds", name)
        yield from _ignored(settings, name, at)
        yield from _primary(bond, at)
        yield from _delays(bond, at)
        yield from _targets(bond, at)
        yield from _mtu(bond, at)
        yield from _times(bond, at)


def _members(settings: Settings) -> Iterator[Finding]:
    """Yield members that are elsewhere already: in another bond, or a bond themselves."""
    first: dict[str, Key] = {}
    for name, bond in settings.bonds.items():
        for number, member in enumerate(bond.members):
            at: Key = ("bonds", name, "members", number)
            other = first.setdefault(member, at)
            if other != at:
                text = f"{shown(member)} is in two bonds; allowed: in one"
                yield Finding(at, text, other)
            if member in settings.bonds:
                text = f"{shown(member)} is a bond; allowed: interfaces that are no bonds"
                yield Finding(at, text, ("bonds", member))


def _ignored(settings: Settings, name: str, at: Key) -> Iterator[Finding]:
    """Yield what ``links`` says to ignore: the bond and its members."""
    watched: dict[str, Key] = {name: at}
    for number, member in enumerate(settings.bonds[name].members):
        watched.setdefault(member, (*at, "members", number))
    for link, place in watched.items():
        if link in settings.links and settings.links[link].role is Role.IGNORE:
            text = f"{shown(link)} has the role ignore; allowed: a link that is watched"
            yield Finding(place, text, ("links", link, "role"))


def _primary(bond: BondSettings, at: Key) -> Iterator[Finding]:
    if bond.primary and bond.primary not in bond.members:
        members = ", ".join(bond.members)
        text = f"{shown(bond.primary)} is no member; allowed, as written there: {members}"
        yield Finding((*at, "primary"), text, (*at, "members"))


def _delays(bond: BondSettings, at: Key) -> Iterator[Finding]:
    for key in ("updelay_ms", "downdelay_ms", "peer_notif_delay_ms"):
        delay: int = getattr(bond, key)
        rounded = delay - delay % bond.miimon_ms
        if rounded != delay:
            text = (
                f"{delay} is no multiple of miimon_ms, {bond.miimon_ms}, and the kernel would "
                f"take {rounded}; allowed: a multiple, such as {rounded or bond.miimon_ms}"
            )
            yield Finding((*at, key), text, (*at, "miimon_ms"))
    if bond.updelay_ms and len(bond.members) == 1:
        text = (
            f"{bond.updelay_ms} has no effect with one member, as the kernel waits only while "
            "another one carries; allowed: 0, or more members"
        )
        yield Finding((*at, "updelay_ms"), text, (*at, "members"))


def _targets(bond: BondSettings, at: Key) -> Iterator[Finding]:
    if bond.targets and bond.detect is Detect.MII:
        text = "given with detect: mii, which asks no target; allowed: none, or detect: probe"
        yield Finding((*at, "targets"), text, (*at, "detect"))


def _mtu(bond: BondSettings, at: Key) -> Iterator[Finding]:
    mtu = bond.mtu_bytes
    needs = f"IPv4 needs {IPV4_MTU_BYTES} and IPv6 {IPV6_MTU_BYTES}"
    if 0 < mtu < IPV4_MTU_BYTES:
        text = f"{mtu} is too small: {needs}; allowed: 0, or {IPV4_MTU_BYTES} to 65535"
        yield Finding((*at, "mtu_bytes"), text)
        return
    number = next((number for number, target in enumerate(bond.targets) if ":" in target), None)
    if number is not None and 0 < mtu < IPV6_MTU_BYTES:
        text = (
            f"{mtu} is too small for {bond.targets[number]}: {needs}; "
            f"allowed: 0, or {IPV6_MTU_BYTES} to 65535"
        )
        yield Finding((*at, "mtu_bytes"), text, (*at, "targets", number))


def _times(bond: BondSettings, at: Key) -> Iterator[Finding]:
    if bond.confirm_after_s >= bond.guard_s - CHANGE_TIME_S:
        confirm, guard = plain(bond.confirm_after_s), plain(bond.guard_s)
        text = (
            f"{confirm} is too long: the change is undone after guard_s, {guard}, and may itself "
            f"take {CHANGE_TIME_S}; allowed: less than {plain(bond.guard_s - CHANGE_TIME_S)}"
        )
        yield Finding((*at, "confirm_after_s"), text, (*at, "guard_s"))
