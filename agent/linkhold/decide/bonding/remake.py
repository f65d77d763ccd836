"""A bond that was committed is made again from its record: at boot, or when somebody removed it.

The record holds the steps themselves, compiled when the bond was made, so that making it again
needs no configuration, no survey and no decision. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bonding.convert import loud_sysctls, quiet_sysctls
from linkhold.decide.bonding.objects import belongings, everything, taken_off
from linkhold.decide.bonding.steps import (
    GONE_ALREADY,
    THERE_ALREADY,
    Announce,
    Await,
    Burst,
    DropLink,
    SetBond,
    SetLink,
)

if TYPE_CHECKING:
    from linkhold.decide.bonding.steps import Step
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look

WAIT_S = 15.0


def steps(wanted: Wanted, look: Look, source: str) -> tuple[Step, ...]:
    """Return the steps that make the bond from nothing, with all that ``source`` carries now.

    ``source`` is the NIC (or the bond itself) whose addresses, routes and rules go onto the bond.
    Members that are absent are passed over; they join when they appear. What a boot gave back to
    a NIC is taken off it first: with its address a member would keep the routes to itself.
    """
    old = look.link(source) or look.link(wanted.members[0])
    assert old is not None  # noqa: S101 - members were found when the plan was made
    make = SetBond(
        wanted.name,
        wanted.options,
        create=True,
        mac="" if wanted.fail_over_mac else old.mac,
        mtu=wanted.settings.mtu_bytes or old.mtu,
        fine=THERE_ALREADY,
    )
    joins = [
        Burst(
            (
                *taken_off(look, source, name),
                SetLink(name, up=False, master=wanted.name, fine=GONE_ALREADY),
            )
        )
        for name in wanted.members
    ]
    mine = belongings(look, source)
    found: list[Step] = [
        Burst((make,)),
        quiet_sysctls(look, old.name, wanted.name),
        *joins,
        Burst((SetLink(wanted.name, up=True),)),
        Await((wanted.name,), timeout_s=WAIT_S, optional=True),
        Burst(everything(look, source, wanted.name)),
        loud_sysctls(look, old.name, wanted.name),
        Burst((SetBond(wanted.name, {"primary": wanted.primary}, fine=GONE_ALREADY),)),
    ]
    if mine.hosts:
        found.append(Announce(wanted.name, mine.hosts))
    return tuple(found)


def give_back(wanted: Wanted, look: Look, source: str) -> tuple[Step, ...]:
    """Return the steps that take the bond away and leave its address on the NIC that had it.

    For a boot at which the gateway answers over the NIC and not over the bond.
    """
    stays = source if source in wanted.members else wanted.primary
    mine = belongings(look, source)
    found: list[Step] = [
        Burst((DropLink(wanted.name, fine=GONE_ALREADY),)),
        *(Burst((SetLink(name, up=True, fine=GONE_ALREADY),)) for name in wanted.members),
        Await((stays,), timeout_s=WAIT_S, optional=True),
        Burst(everything(look, source, stays)),
    ]
    if mine.hosts:
        found.append(Announce(stays, mine.hosts))
    return tuple(found)
