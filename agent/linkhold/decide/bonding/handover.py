"""Handing NICs over: from who configures them now to the bond, which then is theirs. Pure.

systemd-networkd and NetworkManager get the bond as their own profile, so that the node boots its
network without any help of ours; where nobody owns the NICs, linkhold's early oneshot makes the
bond again at boot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.decide.bonding import networkd, networkmanager
from linkhold.decide.bonding.steps import Phase, RestoreFile, Undo, WriteFile
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
class HandOver:
    """How the NICs are taken from their owner and the bond is given to it.

    ``take`` makes the owner leave the NICs alone; ``give`` writes the profile and lets it in
    again; ``back`` lets it in again after files were restored.
    """

    persist: str
    take: tuple[Step, ...] = ()
    give: tuple[Step, ...] = ()
    back: tuple[Step, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that is written or removed on the way."""
        steps = (*self.take, *self.give)
        return tuple(dict.fromkeys(s.path for s in steps if isinstance(s, WriteFile)))


def hand_over(
    wanted: Wanted,
    owner: Owner | None,
    mac: str,
    source: str,
    client: Mapping[str, str],
    metrics: Mapping[str, int],
) -> HandOver:
    """Return the hand-over for the ``owner`` of the live NIC.

    ``mac`` is the bond's, empty where it follows the active member; ``source`` the text of the
    owner's profile of the live NIC; ``client`` the identity of its DHCP client; ``metrics`` those
    of its default routes by family.
    """
    kind = NATIVE.get(owner.kind, LINKHOLD) if owner is not None else LINKHOLD
    if kind == NETWORKD:
        give = networkd.give(wanted, mac, source, client)
        take = networkd.take(wanted.name, wanted.members)
        return HandOver(kind, take, give, networkd.hand_back())
    if kind == NETWORK_MANAGER:
        give = networkmanager.give(wanted, mac, source, metrics)
        return HandOver(kind, networkmanager.take(), give, networkmanager.hand_back())
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
    way_back = (
        *(Undo(step, end) for step in plan.take),
        *(Undo(one.step, one.since + 1) for one in undo),
        *(Undo(RestoreFile(path)) for path in plan.files),
        *(Undo(step) for step in plan.back),
    )
    return (first, *phases, last), way_back


def removal(record: Mapping[str, Any]) -> HandOver:
    """Return the hand-over for taking a committed bond away: files as they were before it.

    ``record`` holds them under ``files``: steps that write what was there.
    """
    kind = record.get("persist", LINKHOLD)
    if kind not in {NETWORKD, NETWORK_MANAGER}:
        return HandOver(kind)
    files = tuple(
        WriteFile(one["path"], one["content"], one["mode"]) for one in record.get("files", ())
    )
    if kind == NETWORKD:
        take = networkd.take(record["bond"], tuple(record["members"]))
        return HandOver(kind, take, (*files, *networkd.hand_back()), networkd.hand_back())
    back = networkmanager.hand_back()
    return HandOver(kind, networkmanager.take(), (*files, *back), back)
