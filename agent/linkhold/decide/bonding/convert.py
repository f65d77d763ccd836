"""A NIC that carries the host's network becomes a member of a new bond. Pure.

Make before break: the bond first stands on the standby NICs alone; addresses, routes and rules
move to it in one burst; only then is the old NIC taken down and joins. Nothing is lost on the
way: the old NIC works until the bond does. docs/handover.md has what other orders cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bonding import routes
from linkhold.decide.bonding.objects import (
    belongings,
    drop_addresses,
    fingerprint,
    moved,
    put_addresses,
    put_back,
)
from linkhold.decide.bonding.steps import (
    GONE_ALREADY,
    Announce,
    AskPath,
    Await,
    Burst,
    DropLink,
    Phase,
    SetBond,
    SetLink,
    SetSysctls,
    Unchanged,
    Undo,
    Worth,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.bonding.steps import Change, Step
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.look import Look, LookedLink

ARPHRD_ETHER = 1
"""linux/if_arp.h."""

CREATE, JOIN, CUT_OVER, TAKE_IN = 0, 1, 2, 3
"""Numbers of the phases: what the way back depends on."""

QUIET = {"addr_gen_mode": "1", "accept_ra": "0", "accept_dad": "0"}
"""net.ipv6.conf.* of a bond that must not speak before the cut-over: it has the old NIC's MAC.

No own link-local address, no router solicitation; and no duplicate address detection for the
addresses that move, which the old NIC would answer.
"""

ONE_OF_TWO = frozenset(
    {"base_reachable_time", "retrans_time", "unres_qlen", "mtu", "stable_secret"}
)
"""Sysctls that another one sets as well, in another unit, and those that are not ours to copy."""


def make_before_break(
    wanted: Wanted, look: Look, live: str, targets: tuple[str, ...]
) -> tuple[tuple[Phase, ...], tuple[Undo, ...]]:
    """Return the phases, and the way back, of moving ``live`` into a new bond.

    ``targets`` are asked through each standby before anything depends on it.
    """
    old = look.link(live)
    assert old is not None  # noqa: S101 - the caller found it there
    standbys = tuple(name for name in wanted.members if name != live)
    phases = (
        Phase(f"create {wanted.name}, silent", _create(wanted, look, old)),
        Phase(f"{join(standbys)} {wanted.name}", tuple(_join(wanted, look, standbys, targets))),
        Phase(f"move everything from {live} to {wanted.name}", tuple(_cut_over(wanted, look, old))),
        Phase(f"{live} joins {wanted.name}", tuple(_take_in(wanted, look, live, targets))),
    )
    return phases, tuple(_way_back(wanted, look, old, standbys))


def join(names: tuple[str, ...]) -> str:
    """Return who joins, with the verb: ``eth1 joins``, ``eth0 and eth1 join``."""
    return f"{' and '.join(names)} join{'s' if len(names) == 1 else ''}"


def _create(wanted: Wanted, look: Look, old: LookedLink) -> tuple[Step, ...]:
    """An explicit MAC also keeps udev's MACAddressPolicy and the first port's MAC away."""
    make = SetBond(
        wanted.name,
        wanted.options,
        create=True,
        mac="" if wanted.fail_over_mac else old.mac,
        mtu=wanted.settings.mtu_bytes or old.mtu,
    )
    return (Burst((make,)), quiet_sysctls(look, old.name, wanted.name))


def quiet_sysctls(look: Look, source: str, target: str) -> SetSysctls:
    """Return what makes ``target`` like ``source``, but silent until the cut-over."""
    values = {}
    for path, value in look.sysctls.items():
        folder, name, key = path.rsplit("/", 2)
        if name == source and key not in ONE_OF_TWO:
            values[f"{folder}/{target}/{key}"] = value
    values |= {f"net/ipv6/conf/{target}/{key}": value for key, value in QUIET.items()}
    return SetSysctls(values, f"sysctls of {source} onto {target}, which stays silent on IPv6")


def loud_sysctls(look: Look, source: str, target: str) -> SetSysctls:
    """Return what ends the silence: the values that ``source`` has."""
    values = {
        f"net/ipv6/conf/{target}/{key}": value
        for key in QUIET
        if (value := look.sysctls.get(f"net/ipv6/conf/{source}/{key}")) is not None
    }
    return SetSysctls(values, f"{target} may speak on IPv6 as {source} did")


def _join(
    wanted: Wanted, look: Look, standbys: tuple[str, ...], targets: tuple[str, ...]
) -> Iterator[Step]:
    for name in standbys:
        # Only addresses that a manager leased for it can be here; see refusals.standby_refusals().
        own = drop_addresses(belongings(look, name))
        yield Burst((*own, SetLink(name, up=False, master=wanted.name)))
    yield Burst((SetLink(wanted.name, up=True),))
    yield Await(standbys, bond=wanted.name)
    # Asked with its own MAC: the bond's still is the old NIC's, and no switch may learn that from
    # the wrong port.
    yield from _ask(look, standbys, targets)


def _ask(look: Look, names: tuple[str, ...], targets: tuple[str, ...]) -> Iterator[Step]:
    """Ask through each NIC that has ARP and ND as on Ethernet; IPoIB cannot be asked so."""
    for name in names if targets else ():
        link = look.link(name)
        if link is not None and link.hw_type == ARPHRD_ETHER:
            yield AskPath(name, targets)


def _cut_over(wanted: Wanted, look: Look, old: LookedLink) -> Iterator[Step]:
    hosts = belongings(look, old.name).hosts
    yield Unchanged(old.name, fingerprint(look, old.name))
    yield Burst(moved(look, old.name, wanted.name))
    if hosts:
        yield Announce(wanted.name, hosts)
    yield loud_sysctls(look, old.name, wanted.name)
    if old.token:
        yield Burst((SetLink(wanted.name, token=old.token),))


def _take_in(wanted: Wanted, look: Look, live: str, targets: tuple[str, ...]) -> Iterator[Step]:
    mine = belongings(look, live)
    leave = SetLink(live, up=False, master=wanted.name)
    yield Burst((*drop_addresses(mine), leave))
    yield Await((live,), bond=wanted.name)
    yield from _ask(look, (live,), targets)
    # Only now, for it makes the kernel move to the primary at once (force_primary).
    yield Burst((SetBond(wanted.name, {"primary": wanted.primary}),))


def only_nic(wanted: Wanted, look: Look, live: str) -> tuple[tuple[Phase, ...], tuple[Undo, ...]]:
    """Return the phases, and the way back, for a bond of one NIC.

    Nothing avoids that its only NIC goes down and up; one burst makes it as short as can be.
    """
    old = look.link(live)
    assert old is not None  # noqa: S101 - the caller found it there
    mine = belongings(look, live)
    burst = Burst(
        (
            *drop_addresses(mine),
            SetLink(live, up=False, master=wanted.name),
            SetLink(wanted.name, up=True),
            *moved(look, live, wanted.name),
        )
    )
    tail: list[Step] = [Await((live,), bond=wanted.name)]
    tail += [Announce(wanted.name, mine.hosts)] if mine.hosts else []
    tail += [Burst((SetBond(wanted.name, {"primary": wanted.primary}),))]
    tail += [loud_sysctls(look, live, wanted.name)]
    check = Unchanged(live, fingerprint(look, live))
    phases = (
        Phase(f"create {wanted.name}, silent", _create(wanted, look, old)),
        Phase(f"{live} joins {wanted.name}, which takes everything over", (check, burst, *tail)),
    )
    return phases, tuple(_way_back(wanted, look, old, (), moved_in=1, taken_in=1))


def from_idle(wanted: Wanted, look: Look) -> tuple[tuple[Phase, ...], tuple[Undo, ...]]:
    """Return the phases, and the way back, for a bond of NICs that carry nothing yet."""
    first = look.link(wanted.members[0])
    assert first is not None  # noqa: S101 - the caller found it there
    make = SetBond(wanted.name, wanted.options, create=True, mtu=wanted.settings.mtu_bytes)
    phases = (
        Phase(f"create {wanted.name}", (Burst((make,)),)),
        Phase(
            f"{join(wanted.members)} {wanted.name}",
            (
                *_join(wanted, look, wanted.members, ()),
                Burst((SetBond(wanted.name, {"primary": wanted.primary}),)),
            ),
        ),
    )
    undo = [Undo(Burst((DropLink(wanted.name, fine=GONE_ALREADY),)))]
    links = [link for name in wanted.members if (link := look.link(name)) is not None]
    undo += [Undo(Burst(idle_again(look, link)), JOIN) for link in links]
    return phases, tuple(undo)


def _way_back(
    wanted: Wanted,
    look: Look,
    old: LookedLink,
    standbys: tuple[str, ...],
    *,
    moved_in: int = CUT_OVER,
    taken_in: int = TAKE_IN,
) -> Iterator[Undo]:
    """Yield the way back from any point, in order. Each step may be done again.

    The bond carries until the old NIC does: it is removed last. ``moved_in`` and ``taken_in``
    are the phases in which the addresses moved and the old NIC joined.
    """
    live, mine = old.name, belongings(look, old.name)
    dad = f"net/ipv6/conf/{live}/accept_dad"
    yield Undo(Worth(live, wanted.name), moved_in)
    yield Undo(Burst((SetLink(live, master="", fine=GONE_ALREADY),)), taken_in)
    # The bond has the same addresses on the same wire, so that detection would find them.
    yield Undo(SetSysctls({dad: "0"}, f"no duplicate detection on {live}"), taken_in)
    yield Undo(Burst(tuple(put_addresses(mine, live))), taken_in)
    yield Undo(Burst((as_before(old),)), taken_in)
    yield Undo(Await((live,), optional=True), taken_in)
    yield Undo(Burst(put_back(look, live, wanted.name)), moved_in)
    if mine.hosts:
        yield Undo(Announce(live, mine.hosts), moved_in)
    yield Undo(Burst((DropLink(wanted.name, fine=GONE_ALREADY),)), CREATE)
    for name in standbys:
        link = look.link(name)
        if link is not None:
            yield Undo(Burst(idle_again(look, link)), JOIN)
        if belongings(look, name).routable:
            yield Undo(Burst(put_back(look, name, wanted.name)), JOIN)
    # Once more without the bond, whose routes may have stood before these.
    yield Undo(Burst(put_back(look, live, wanted.name)), moved_in)
    if advertised := tuple(routes.advertised(look, mine, live)):
        yield Undo(Burst(advertised), taken_in)
    if dad in look.sysctls:
        yield Undo(SetSysctls({dad: look.sysctls[dad]}, f"duplicate detection on {live}"), taken_in)


def idle_again(look: Look, link: LookedLink) -> tuple[Change, ...]:
    """Return the messages that make a NIC that carried nothing again what it was.

    Its link-local address comes by itself, unless it never was down.
    """
    return as_before(link), *put_addresses(belongings(look, link.name), link.name)


def as_before(link: LookedLink) -> SetLink:
    """Return the message that gives a released member its MTU and its state back."""
    return SetLink(link.name, up=link.admin_up, mtu=link.mtu, fine=GONE_ALREADY)
