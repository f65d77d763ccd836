"""Starting again: what the state that an agent before this one stored says of its bonds. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.keeping.values import BondMemory, Memory

if TYPE_CHECKING:
    from linkhold.model import BondKeep


def recall(keeps: tuple[BondKeep, ...], now_ns: int) -> Memory:
    """Return the memory to start with, for a stored state of this boot.

    What was told is not told again, and a conflict goes on: a restart must not renew a fight.
    """
    bonds = {
        keep.bond: BondMemory(
            judged=True,
            applied=keep.applied,
            drift=keep.drift,
            since=dict.fromkeys((drift.key for drift in keep.drift), now_ns),
            told={drift.key: drift for drift in keep.drift},
            conflict=keep.conflict,
        )
        for keep in keeps
    }
    return Memory(bonds=bonds, told=keeps)
