"""An operator's own hold: when it may begin, what it holds, and when it ends. Pure.

One hold at a time for the node, and one for each job: a second one takes the place of the first.
Every hold has an end, so that nobody can forget one; time is CLOCK_MONOTONIC of this boot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.decide.happening import Happening
from linkhold.model import LinkholdError, Moment, Severity
from linkhold.model.holds import Key, OperatorHold
from linkhold.wire import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.model import NodeState

DEFAULT_S = 600.0
"""Below the 900 s after which a job gives up by itself (``max_hold_s`` of the client)."""
LEAST_S = 5.0
MOST_S = 4 * 3600.0
MOST_HOLDS = 16
WHY_CHARACTERS = 200

Holds = tuple[OperatorHold, ...]


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody wants held, for ``for_s`` seconds; ``job`` is empty for the whole node."""

    uploads: bool
    training: bool
    why: str
    for_s: float = DEFAULT_S
    job: str = ""
    processes: tuple[Key, ...] = ()


def check(order: Order) -> None:
    """Raise :class:`LinkholdError` for what may not be held so, with what is allowed."""
    if not (order.uploads or order.training):
        raise LinkholdError("nothing is to be held; allowed: uploads, training or both")
    if not LEAST_S <= order.for_s <= MOST_S:
        raise LinkholdError(
            f"for: {order.for_s:g} s is out of range; allowed: {LEAST_S:g} s to {MOST_S / 3600:g} h"
        )
    why = order.why.strip()
    if not why or len(why) > WHY_CHARACTERS or not why.isprintable():
        raise LinkholdError(
            f"why: say in 1 to {WHY_CHARACTERS} printable characters what the hold is for"
        )


def place(
    holds: Holds, order: Order, by: str, uid: int, now: Moment
) -> tuple[Holds, list[Happening]]:
    """Return the holds with one more, and the news. Raises :class:`LinkholdError`."""
    check(order)
    others = tuple(hold for hold in holds if hold.job != order.job)
    if len(others) >= MOST_HOLDS:
        raise LinkholdError(f"{MOST_HOLDS} holds are in force, the most; end one: linkhold resume")
    ends = Moment(now.mono_ns + int(order.for_s * 1e9), now.wall_s + order.for_s)
    hold = OperatorHold(
        order.job,
        order.uploads,
        order.training,
        order.why.strip(),
        by,
        uid,
        now,
        ends,
        order.processes,
    )
    data = {
        "uploads": hold.uploads,
        "training": hold.training,
        "why": hold.why,
        "by": by,
        "until": rfc3339(ends.wall_s),
        "renewed": len(others) < len(holds),
    }
    news = Happening("hold.started", hold.subject, data, Severity.WARNING)
    return (*others, hold), [news]


def lift(
    holds: Holds, jobs: tuple[str, ...], by: str, now: Moment
) -> tuple[Holds, list[Happening]]:
    """Return the holds without those of ``jobs``, and the news."""
    ended = [hold for hold in holds if hold.job in jobs]
    left = tuple(hold for hold in holds if hold.job not in jobs)
    return left, [_ended(hold, f"resumed by {by}", now) for hold in ended]


def expire(state: NodeState, now: Moment) -> tuple[NodeState, list[Happening]]:
    """Return the state without the holds whose time is over, and the news."""
    over = [hold for hold in state.holds if hold.ends.mono_ns <= now.mono_ns]
    if not over:
        return state, []
    left = tuple(hold for hold in state.holds if hold not in over)
    return replace(state, holds=left), [_ended(hold, "its time is over", now) for hold in over]


def next_end_ns(holds: Holds) -> int | None:
    """Return when the first hold ends by itself, None without one."""
    return min((hold.ends.mono_ns for hold in holds), default=None)


def holds_uploads(holds: Holds) -> bool:
    """Tell whether uploads of the whole node are held."""
    return any(hold.uploads for hold in holds if not hold.job)


def holds_training(holds: Holds) -> bool:
    """Tell whether all training of the node is held."""
    return any(hold.training for hold in holds if not hold.job)


def causes(holds: Iterable[OperatorHold]) -> tuple[str, ...]:
    """Return a line for each hold: what, who, until when, why."""
    return tuple(
        f"{hold.what} of {hold.job or 'this node'} held by {hold.by} "
        f"until {rfc3339(hold.ends.wall_s)[:19]}Z: {hold.why}"
        for hold in holds
    )


def _ended(hold: OperatorHold, reason: str, now: Moment) -> Happening:
    data = {
        "uploads": hold.uploads,
        "training": hold.training,
        "by": hold.by,
        "reason": reason,
        "lasted_s": round(now.seconds_since(hold.began), 3),
    }
    return Happening("hold.ended", hold.subject, data)
