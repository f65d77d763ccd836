"""What a state means for a training process: pure, no clock, no socket, no logger.

The newest believed state is the whole memory of what the agent asked. While it is fresh, all of
its advice counts. Once it is stale, only a checkpoint or stop it carried stays in force: at low
battery the agent may die first. Nothing but a newer state withdraws them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING

from linkhold.model import (
    CheckpointRequest,
    Network,
    PowerState,
    StopRequest,
    Training,
    Uploads,
    WireError,
)
from linkhold.model.promises import STALE_S
from linkhold.wire import from_rfc3339
from linkhold.wire.holds import parse_holds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkhold.client.settings import Settings
    from linkhold.model.holds import OperatorHold
    from linkhold.wire import StateView

FUTURE_S = 1.0
"""A state written later than now by more than this is nonsense."""
FAR_S = 100 * 365 * 86400
"""No deadline is told as further away than this: what is nonsense must still be a number."""
SHOWN_CAUSES = 3


class Seen(Enum):
    """What a state that arrived is, compared with what is known; the value names a counter."""

    NEWER = "accepted"
    SAME = "repeated"
    OLDER = "older"
    FOREIGN = "foreign_boot"
    FUTURE = "future"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Guidance:
    """What training, uploads, checkpoint and stop should do now.

    ``present`` tells whether an agent stands behind it. ``hold`` says in words why training is
    on hold, None while it is not.
    """

    present: bool = False
    hold: str | None = None
    uploads: Uploads = Uploads.GO
    checkpoint: CheckpointRequest | None = None
    stop: StopRequest | None = None


NOBODY = Guidance()
"""Without an agent everything goes."""


def sift(known: StateView | None, found: StateView, boot_id: str, now_ns: int) -> Seen:
    """Judge a state that arrived: only :attr:`Seen.NEWER` may replace what is known.

    ``boot_id`` is this kernel's. An old state is believed only for a stop whose deadline is
    still ahead.
    """
    if _plain(found.boot_id) != _plain(boot_id) or not boot_id:
        return Seen.FOREIGN
    if found.mono_ns - now_ns > FUTURE_S * 1e9 or found.session_mono_ns > found.mono_ns:
        return Seen.FUTURE
    if not is_fresh(found, now_ns) and not _stop_ahead(found, now_ns):
        return Seen.STALE
    return Seen.NEWER if known is None else _compare(known, found, now_ns)


def _compare(known: StateView, found: StateView, now_ns: int) -> Seen:
    if found.order == known.order:
        return Seen.SAME
    # Whatever outranks a state that was written later and has fallen silent was nonsense.
    outlived = found.mono_ns > known.mono_ns and not is_fresh(known, now_ns)
    return Seen.NEWER if outlived or found.order > known.order else Seen.OLDER


def is_fresh(view: StateView | None, now_ns: int) -> bool:
    """Tell whether a state is young enough that an agent stands behind it."""
    # Whole numbers may be too large for a float, but can be compared with one.
    return view is not None and now_ns - view.mono_ns <= STALE_S * 1e9


def same_advice(one: StateView | None, other: StateView) -> bool:
    """Tell whether ``other`` is only a heartbeat of ``one``."""
    return one is not None and (one.session, one.epoch) == (other.session, other.epoch)


def _nobody(_hold: OperatorHold) -> bool:
    return False


def guide(
    settings: Settings,
    view: StateView | None,
    now_ns: int,
    means_us: Callable[[OperatorHold], bool] = _nobody,
) -> Guidance:
    """Return what the newest believed state asks of this job now.

    ``means_us`` tells whether an operator's hold of one job is of ours.
    """
    if view is None:
        return NOBODY
    advice = view.advice
    ours = [
        hold
        for hold in parse_holds(view.document.get("holds"))
        if now_ns < hold.ends.mono_ns and (not hold.job or means_us(hold))
    ]
    whole = Guidance(
        present=True,
        hold=_hold(settings, view, ours),
        uploads=_uploads(advice.uploads, ours),
        checkpoint=advice.checkpoint,
        stop=advice.stop,
    )
    return in_force(whole, fresh=is_fresh(view, now_ns), now_ns=now_ns)


def in_force(guidance: Guidance, *, fresh: bool, now_ns: int) -> Guidance:
    """Return what still counts of ``guidance``, which may have been worked out a while ago.

    ``fresh`` tells whether an agent still stands behind it. The stop of a silent agent ends
    with its deadline.
    """
    if guidance.present and fresh:
        return guidance
    stop = guidance.stop
    passed = stop is not None and 0 < (stop.deadline_mono_ns or 0) <= now_ns
    return Guidance(checkpoint=guidance.checkpoint, stop=None if passed else stop)


def seconds_left(stop: StopRequest | None, now_ns: int) -> float | None:
    """Return the seconds until the deadline of ``stop``, never negative; None without one."""
    if stop is None or stop.deadline_mono_ns is None:
        return None
    left_ns = min(stop.deadline_mono_ns - now_ns, FAR_S * 10**9)
    return max(0, left_ns) / 1e9


def why(view: StateView) -> str:
    """Say what is wrong as a person would: ``network down since 03:12:04 (eth0 lost carrier)``."""
    causes = "; ".join(view.cause[:SHOWN_CAUSES])
    because = f" ({causes})" if causes else ""
    if view.network is Network.DOWN:
        return f"network down{_since(view)}{because}"
    if view.power in (PowerState.BATTERY, PowerState.LOW):
        return "power on battery" if view.power is PowerState.BATTERY else "power low"
    if "network" in view.advice.holds:
        return f"network back{_since(view)}, waiting for it to stay"
    by = sorted(parse_holds(view.document.get("holds")), key=lambda hold: bool(hold.job))
    return _held_by(by[0]) if by else f"the agent asks for it{because}"


def _uploads(advised: Uploads, ours: Sequence[OperatorHold]) -> Uploads:
    """Return the advice, as an operator's hold of our job has it; the newest goes all the same."""
    held = advised is Uploads.GO and any(hold.job and hold.uploads for hold in ours)
    return Uploads.HOLD if held else advised


def _held_by(hold: OperatorHold) -> str:
    return f"held by {hold.by} until {_clock(hold.ends.wall_s)}: {hold.why}"


def _hold(settings: Settings, view: StateView, ours: Sequence[OperatorHold]) -> str | None:
    by = next((hold for hold in ours if hold.training), None)
    if by is not None:
        return _held_by(by)
    asked = [name for name in settings.hold_on if name in view.advice.holds]
    held = view.advice.training is Training.HOLD or bool(asked)
    return why(view) if held else None


def _stop_ahead(view: StateView, now_ns: int) -> bool:
    stop = view.advice.stop
    return stop is not None and (stop.deadline_mono_ns or 0) > now_ns


def _since(view: StateView) -> str:
    try:
        shown = _clock(from_rfc3339(view.document["since"]))
    except (KeyError, WireError):
        return ""
    return f" since {shown}" if shown else ""


def _clock(wall_s: float) -> str:
    """Return a local time, empty for one that no calendar has."""
    try:
        return f"{datetime.fromtimestamp(wall_s, timezone.utc).astimezone():%H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return ""


def _plain(boot_id: str) -> str:
    return boot_id.replace("-", "").strip().lower()
