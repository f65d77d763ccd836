"""Who did it, as far as that can be known; nothing more is ever claimed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.decide.keeping.values import Found
    from linkhold.model import Drift

RECENT_NS = 10_000_000_000
"""A manager that started longer before than this has finished what it does at its start."""


def blame(
    drift: Drift, bond: str, members: Iterable[str], began_ns: int, found: Found | None
) -> str:
    """Return in words what points at somebody; empty when nothing does.

    An owner is one who configures the interface, which is no proof that this was its doing.
    """
    if found is None:
        return ""
    concerned = {"member_left": (drift.subject,), "member_elsewhere": (drift.subject,)}
    interfaces = concerned.get(drift.kind, (bond, *members) if drift.kind == "gone" else (bond,))
    if drift.kind in {"member_admin_down", "member_addressed", "stranger"}:
        interfaces = (drift.subject, bond)
    restarts = [
        f"{one.name} started {max(0, began_ns - one.at_ns) / 1e9:.1f} s before"
        for one in found.restarts
        if 0 <= began_ns - one.at_ns <= RECENT_NS
    ]
    owners = [
        f"{found.owners[name]} configures {name}" for name in interfaces if name in found.owners
    ]
    return "; ".join((*restarts, *owners[:1]))
