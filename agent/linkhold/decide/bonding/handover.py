"""Handing NICs over: from who configures them now to the bond, which then is theirs. Pure.

systemd-networkd and NetworkManager get the bond as their own profile, so that the node boots its
network without any help of ours; where nobody owns the NICs, linkhold's early oneshot makes the
bond again at boot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from linkhold.decide.bonding import networkd, networkmanager
from linkhold.decide.bonding.steps import Phase, Refusal, RestoreFile, Undo, Worth, WriteFile
from linkhold.model.survey import OwnerKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.bonding.steps import Step
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.survey import Owner

LINKHOLD, NETWORKD, NETWORK_MANAGER = "linkhold", "networkd", "NetworkManager"
NONE = "none"
"""Of a bond that others made and linkhold only adjusted: who makes it at boot is their matter."""
NATIVE = {OwnerKind.NETWORKD: NETWORKD, OwnerKind.NETWORK_MANAGER: NETWORK_MANAGER}


@dataclass(frozen=True, slots=True)
class Holding:
    """What is known of how the live NIC is configured, by whoever owns it.

    ``text`` is that of its profile (.network with drop-ins, or keyfile), ``file`` the profile's
    path, ``connection`` NetworkManager's UUID of it; ``client`` the identity of networkd's DHCP
    client, ``lease`` NetworkManager's lease; ``in_use`` every .network file that networkd uses.
    ``unread`` says what could not be read.
    """

    text: str = ""
    file: str = ""
    connection: str = ""
    client: Mapping[str, str] = field(default_factory=dict)
    lease: str = ""
    in_use: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HandOver:
    """How the NICs are taken from their owner and the bond is given to it.

    ``take`` makes the owner leave the NICs alone; ``give`` writes the profile and lets it in
    again; ``back`` lets it in again after files were restored. ``late`` are files that must be
    there for ``back`` and are restored after it. ``volatile`` are files in /run that a running
    agent keeps there.
    """

    persist: str
    take: tuple[Step, ...] = ()
    give: tuple[Step, ...] = ()
    back: tuple[Step, ...] = ()
    late: tuple[str, ...] = ()
    volatile: tuple[WriteFile, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that is written or removed on the way and restored on the way back."""
        steps = (*self.take, *self.give)
        paths = dict.fromkeys(s.path for s in steps if isinstance(s, WriteFile))
        return tuple(path for path in paths if path not in self.late and "{" not in path)


def hand_over(
    wanted: Wanted,
    live: str,
    owner: Owner | None,
    mac: str,
    holding: Holding,
    metrics: Mapping[str, int],
) -> HandOver:
    """Return the hand-over for the ``owner`` of the ``live`` NIC.

    ``mac`` is the bond's, empty where it follows the active member; ``metrics`` those of the live
    NIC's default routes by family.
    """
    kind = NATIVE.get(owner.kind, LINKHOLD) if owner is not None else LINKHOLD
    bond, members = wanted.name, wanted.members
    if kind == NETWORKD:
        in_use = holding.in_use
        return HandOver(
            kind,
            networkd.take(bond, members, in_use),
            networkd.give(wanted, mac, holding.text, holding.client, in_use),
            (networkd.RESTART,),
            networkd.kept_paths(in_use),
            networkd.volatile(bond, members),
        )
    if kind == NETWORK_MANAGER:
        return HandOver(
            kind,
            networkmanager.take(bond, members),
            networkmanager.give(wanted, mac, holding.text, metrics, holding.lease),
            (*networkmanager.back(live, members, holding.connection), networkmanager.START),
        )
    return HandOver(LINKHOLD)


def around(
    plan: HandOver, bond: str, phases: tuple[Phase, ...], undo: tuple[Undo, ...]
) -> tuple[tuple[Phase, ...], tuple[Undo, ...]]:
    """Return the phases with those of the hand-over before and after, and the whole way back.

    On the way back from the last phase the owner is kept away again first, lest it works against
    the undo; at the very end the files are restored and it is let in.
    """
    if plan.persist not in {NETWORKD, NETWORK_MANAGER}:
        return phases, undo
    first = Phase(f"keep {plan.persist} from the NICs", plan.take)
    last = Phase(f"hand {bond} over to {plan.persist}", plan.give, confirmed=True)
    end = len(phases) + 1
    later = [Undo(one.step, one.since + 1) for one in undo]
    way_back = (
        *(one for one in later if isinstance(one.step, Worth)),  # before the owner is disturbed
        *(Undo(step, end) for step in plan.take),
        *(one for one in later if not isinstance(one.step, Worth)),
        *(Undo(RestoreFile(path)) for path in plan.files),
        *(Undo(step) for step in plan.back),
        *(Undo(RestoreFile(path)) for path in plan.late),
    )
    return (first, *phases, last), way_back


def unwritable(name: str, record: Mapping[str, Any], holding: Holding) -> Refusal | None:
    """Return why the profile of a standing bond cannot be written anew; None where it can be.

    All that is not the bond's own (addresses, routes, DHCP) is copied from the profile that is
    there; written without that, the next boot would have no network.
    """
    kind = record.get("persist", NONE)
    if kind not in {NETWORKD, NETWORK_MANAGER} or holding.text.strip():
        return None
    reason = f"its profile for {kind} is empty or cannot be read, and the next boot needs it"
    remedy = f"put {own_profile(name, kind)} back, or run linkhold bond remove {name}, then apply"
    return Refusal(name, reason, remedy)


def own_profile(name: str, kind: str) -> str:
    """Return the file that linkhold gave to networkd or NetworkManager for a bond."""
    if kind == NETWORKD:
        return networkd.bond_profile(name)
    return networkmanager.bond_profile(name) if kind == NETWORK_MANAGER else ""


def rewritten(wanted: Wanted, record: Mapping[str, Any], mac: str, source: str) -> tuple[Step, ...]:
    """Return the steps that bring the profile of a standing bond to what is wanted now.

    The owner need not look at it before the next boot: the bond itself is changed already.
    ``source`` is the text of the bond's own profile.
    """
    kind = record.get("persist", NONE)
    if kind == NETWORKD:
        files = networkd.profiles(wanted, mac, source, {})
        writes = [WriteFile(path, text) for path, text in files.items()]
        return (*writes, *networkd.volatile(wanted.name, wanted.members))
    if kind == NETWORK_MANAGER:
        files = networkmanager.profiles(wanted, mac, source, {})
        return (
            *(WriteFile(path, text, networkmanager.PRIVATE) for path, text in files.items()),
            networkmanager.READ_AGAIN,
        )
    return ()


def removal(record: Mapping[str, Any], in_use: tuple[str, ...]) -> HandOver:
    """Return the hand-over for taking a committed bond away: files as they were before it.

    ``record`` holds them under ``files``; those in /run are of another time. ``in_use`` is as in
    :class:`Holding`, of now.
    """
    kind = record.get("persist", LINKHOLD)
    if kind not in {NETWORKD, NETWORK_MANAGER}:
        return HandOver(kind)
    bond, members = str(record["bond"]), tuple(record["members"])
    give: tuple[Step, ...]
    files = tuple(
        WriteFile(one["path"], one["content"], one["mode"])
        for one in record.get("files", ())
        if not one["path"].startswith("/run/")
    )
    if kind == NETWORK_MANAGER:
        back = networkmanager.back(record["live"], members, record["connection"])
        give = networkmanager.let_in(bond, (*files, *back))
        return HandOver(kind, networkmanager.take(bond, members), give, (networkmanager.START,))
    own = [record["profile"]] if record["profile"] else []
    volatile = networkd.volatile(bond, members)
    give = (
        *files,
        *networkd.keep(own),
        *(WriteFile(step.path, None) for step in volatile),
        networkd.RESTART,
        *(WriteFile(path, None) for path in networkd.kept_paths((*own, *in_use))),
    )
    take = networkd.take(bond, members, in_use)
    return HandOver(kind, take, give, (networkd.RESTART,), networkd.kept_paths((*own, *in_use)))
