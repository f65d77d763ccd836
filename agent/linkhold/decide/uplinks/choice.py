"""Which uplink default traffic should take, and how often that may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.decide.uplinks.desk import SECOND
from linkhold.decide.uplinks.values import Moving, Place, Withdraw
from linkhold.model import Severity
from linkhold.model.uplinks import why

if TYPE_CHECKING:
    from linkhold.decide.uplinks.desk import Desk
    from linkhold.decide.uplinks.values import Placed

HOUR_NS = 3600 * SECOND
LASTING_NS = 600 * SECOND
"""A return that lasts this long was no flap."""
MOST_HOLD_NS = HOUR_NS
RETRY_S, MOST_RETRY_S = 5, 60


@dataclass(frozen=True, slots=True)
class Aim:
    """The uplink to switch to. ``back``: a return to a better one, which can wait."""

    link: str
    reason: str
    back: bool = False


def choose(desk: Desk) -> None:
    """Switch if there is reason to, it may be done, and no switch is under way."""
    memory = desk.memory
    if memory.moving is not None:
        return
    desk.put(moves=tuple(t for t in memory.moves if desk.now_ns - t < HOUR_NS))
    aim = _aim(desk)
    _note_wish(desk, aim)
    if aim is None:
        _release(desk)
        if desk.rules.enforce and desk.now_ns >= memory.retry_ns:
            _pin(desk)
    elif desk.rules.enforce and desk.now_ns >= memory.retry_ns and _allowed(desk, aim):
        _go(desk, aim)


def _aim(desk: Desk) -> Aim | None:
    order, current = desk.rules.order, desk.carrying
    if current not in order:
        return None
    line = desk.line(current)
    if line.verdict == "dead":
        alive = next((link for link in order if _answers(desk, link, line.silent_ns)), "")
        if alive:
            return Aim(alive, why(current, line.reason))
        natural = desk.memory.natural
        nobody = all(desk.line(link).verdict == "dead" for link in order)
        if nobody and natural in order and natural != current:
            return Aim(natural, "no uplink answers")
        return None
    better = order[: order.index(current)]
    steady = next((link for link in better if desk.now_ns >= back_ns(desk, link)), "")
    return Aim(steady, f"{steady} answers again", back=True) if steady else None


def _answers(desk: Desk, link: str, since_ns: int) -> bool:
    line = desk.line(link)
    return line.verdict == "alive" and line.misses == 0 and line.answered_ns > since_ns


def back_ns(desk: Desk, link: str) -> int:
    """Return when it is time to return to ``link`` if it goes on as it does now."""
    line = desk.line(link)
    if line.verdict != "alive" or not line.steady_ns or line.misses:
        return desk.now_ns + HOUR_NS
    hold_ns = int(desk.rules.up_after_s * SECOND) << min(desk.memory.strikes, 12)
    return line.steady_ns + min(hold_ns, MOST_HOLD_NS)


def _note_wish(desk: Desk, aim: Aim | None) -> None:
    """Where nothing may be done, tell once what would be."""
    would = aim.link if aim is not None and not desk.rules.enforce else ""
    if aim is not None and would and would != desk.memory.would:
        data = {"previous": desk.carrying, "active": would, "reason": aim.reason}
        desk.say("uplink.would_switch", would, Severity.WARNING, **data)
    desk.put(would=would)


def _allowed(desk: Desk, aim: Aim) -> bool:
    left = desk.rules.switches_per_hour - len(desk.memory.moves)
    if aim.back:
        return left > 1  # the last one is for a failure
    if left > 0:
        return True
    if not desk.memory.locked:
        until_s = round((desk.memory.moves[0] + HOUR_NS - desk.now_ns) / SECOND)
        text = f"{len(desk.memory.moves)} switches within an hour"
        desk.put(locked=text)
        data = {"switches": len(desk.memory.moves), "until_s": until_s, "reason": aim.reason}
        desk.say("uplink.locked", desk.carrying, Severity.WARNING, **data)
    return False


def _release(desk: Desk) -> None:
    if desk.memory.locked:
        desk.put(locked="")


def _pin(desk: Desk) -> None:
    """Put a spare in front that the host's own routes lead to already: no traffic moves.

    Else it would return to a better uplink the moment that has a route again, proven or not: when
    its interface goes down, the kernel or its manager removes the routes of an uplink.
    """
    memory, link = desk.memory, desk.carrying
    spare = link in desk.rules.order[1:]
    if spare and not memory.placed and _answers(desk, link, 0):
        desk.put(moving=Moving(link, link, "", desk.now_ns))
        desk.actions.append(Place(link, desk.line(link).sight.index))


def _go(desk: Desk, aim: Aim) -> None:
    memory, current, order = desk.memory, desk.carrying, desk.rules.order
    better = order.index(aim.link) < order.index(current)
    strikes = memory.strikes
    if not better:
        flapped = memory.back_ns and desk.now_ns - memory.back_ns < LASTING_NS
        strikes = strikes + 1 if flapped else 0
    desk.put(
        moving=Moving(current, aim.link, aim.reason, desk.now_ns, _silence_ns(desk, aim)),
        moves=(*memory.moves, desk.now_ns),
        back_ns=desk.now_ns if better else 0,
        strikes=strikes,
        locked="",
    )
    # The host's own routes do where they lead to the first uplink, and where nothing is proven.
    first = aim.link == memory.natural == order[0]
    unproven = desk.line(aim.link).verdict != "alive"
    index = desk.line(aim.link).sight.index
    desk.actions.append(Withdraw() if first or unproven else Place(aim.link, index))


def _silence_ns(desk: Desk, aim: Aim) -> int:
    """Return since when the uplink to leave is silent; 0 where nothing failed."""
    return 0 if aim.back else desk.line(desk.carrying).answered_ns


def placed(desk: Desk, reading: Placed) -> None:
    """Take in what became of a switch."""
    moving = desk.memory.moving
    desk.put(placed=reading.link, moving=None)
    if moving is None:
        return
    if reading.error:
        refusals = desk.memory.refusals + 1
        wait_s = min(RETRY_S << min(refusals - 1, 8), MOST_RETRY_S)
        desk.put(refusals=refusals, retry_ns=desk.now_ns + wait_s * SECOND)
        data = {"previous": moving.previous, "active": moving.active, "reason": reading.error}
        desk.say("uplink.switch_failed", moving.active, Severity.CRITICAL, **data)
        return
    desk.put(refusals=0, retry_ns=0)
    if moving.active != moving.previous:
        _tell(desk, moving)


def _tell(desk: Desk, moving: Moving) -> None:
    silence_s = (desk.now_ns - moving.silent_ns) / SECOND if moving.silent_ns else None
    data = {
        "previous": moving.previous,
        "active": moving.active,
        "reason": moving.reason,
        "took_ms": round((desk.now_ns - moving.began_ns) / 1e6, 1),
        "silence_s": None if silence_s is None else round(silence_s, 3),
    }
    severity = Severity.INFO if moving.silent_ns == 0 else Severity.WARNING
    desk.say("uplink.switched", moving.active, severity, **data)
