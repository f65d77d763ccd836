"""Which NICs somebody set down: those are never raised. Pure.

A NIC that is down is not always somebody's decision. ``__bond_release_one`` (bond_main.c) closes
a member that leaves, right after it left; a NIC that just appeared was never opened by anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.keeping.values import NicNote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model import HostNetwork, Link

RELEASE_NS = 2_000_000_000
"""The kernel closes a NIC right after it left; a driver may take a second for that."""


def notes(
    before: HostNetwork | None, after: HostNetwork, known: Mapping[int, NicNote], now_ns: int
) -> dict[int, NicNote]:
    """Return what is to be remembered of each NIC after a look."""
    found: dict[int, NicNote] = {}
    old = before.links if before else {}
    for index, link in after.links.items():
        was, note = old.get(index), known.get(index)
        if note is None or was is not link:
            note = _note(was, link, note or NicNote(), now_ns, first=before is None)
        found[index] = note
    return found


def _note(old: Link | None, new: Link, was: NicNote, now_ns: int, *, first: bool) -> NicNote:
    left = old is not None and old.master is not None and new.master is None
    left_ns = now_ns if left else was.left_ns
    if new.admin_up:
        set_down = False
    elif old is None:
        # Never opened: it never had carrier. At first sight anything else may be a decision.
        set_down = first and (new.master is not None or new.carrier_ups > 0)
    elif old.admin_up:
        set_down = not _released(new, left_ns, now_ns)
    else:
        set_down = was.set_down
    at_sight = old is None and new.master is None
    guessed = set_down and (at_sight or (was.guessed and was.set_down))
    return NicNote(set_down, left_ns, guessed)


def _released(new: Link, left_ns: int, now_ns: int) -> bool:
    return new.master is None and bool(left_ns) and now_ns - left_ns <= RELEASE_NS
