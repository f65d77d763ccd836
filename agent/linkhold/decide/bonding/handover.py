"""Handing NICs over: from who configures them now to the bond, which then is theirs. Pure.

By owner: systemd-networkd and NetworkManager get the bond as their own profile, so that the node
boots its network without any help of ours; where nobody owns the NICs, linkhold's early oneshot
makes the bond again at boot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.decide.bonding.steps import Phase, Undo
    from linkhold.decide.bonding.wanted import Wanted
    from linkhold.model.survey import Survey


def around(
    wanted: Wanted,
    live: str,
    survey: Survey,
    phases: tuple[Phase, ...],
    undo: tuple[Undo, ...],
) -> tuple[tuple[Phase, ...], tuple[Undo, ...]]:
    """Return the phases with those of the hand-over before and after, and the whole way back."""
    del wanted, live, survey
    return phases, undo
