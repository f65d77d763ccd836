"""The policy: one table from what is known to what training should do.

Precedence: stop, then checkpoint, then hold. Uploads are never ``go`` while nothing can carry
them. docs/power.md has the table in words; each function below is one of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.model import (
    Advice,
    CheckpointRequest,
    Moment,
    Notice,
    Power,
    PowerState,
    StopRequest,
    Training,
    Uploads,
)
from linkhold.model.promises import FIT_SAVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.settings import PolicySettings

ENDING = frozenset({"terminate", "preempt", "stop", "hibernate", "redeploy"})
"""Actions after which this machine does not go on, or elsewhere and without its local disks."""
ENDS_PROCESSES = ENDING | {"reboot"}
"""Actions that no process outlives; what another action does nobody knows."""
SOON = frozenset({"spot", "rebalance"})
"""Kinds that are acted on at once: their time is an upper bound, and no more is left than that."""
HARMLESS = frozenset({"freeze", "migrate"})
"""Actions that pause the machine for seconds and need nothing from training."""
LEAD_SAVES = 2
LEAD_EXTRA_S = 300.0
"""A scheduled end is acted on this much, and two saves, before it."""
RUNTIME_SHARE = 4
"""On battery, save at least every quarter of what the battery has left."""
_DARK = frozenset({PowerState.BATTERY, PowerState.LOW})
STOP_MARGIN_S = 30.0
"""Training ends this long before the battery or the machine does."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the policy looks at: settled and damped where the table says so.

    ``network_held`` holds uploads, ``network_settled_down`` holds jobs that asked for it;
    ``on_battery`` lasts until mains were back for a while, ``battery_since_ns`` is its
    beginning; ``power_since`` that of the present power state, ``power_seen`` the moment
    ``power`` was read. An operator holds the node's uploads or training by ``operator_...``.
    """

    network_held: bool = False
    network_settled_down: bool = False
    flapping: bool = False
    on_battery: bool = False
    battery_since_ns: int = 0
    power: Power = Power()
    power_since: Moment = Moment(0, 0.0)
    power_seen: Moment = Moment(0, 0.0)
    notices: tuple[Notice, ...] = ()
    operator_uploads: bool = False
    operator_training: bool = False


def advise(policy: PolicySettings, conditions: Conditions, now: Moment) -> Advice:
    """Return the advice for ``conditions`` at ``now``."""
    due = tuple(n for n in conditions.notices if _is_due(policy, n, now))
    low = _must_stop_for_power(conditions)
    return Advice(
        uploads=_uploads(conditions, due, low=low),
        training=Training.HOLD if conditions.operator_training else Training.GO,
        holds=("network",) if conditions.network_settled_down else (),
        checkpoint=_checkpoint(policy, conditions, due, now, low=low),
        stop=_stop(conditions, due, low=low),
    )


def next_change_ns(policy: PolicySettings, notices: tuple[Notice, ...], now: Moment) -> int | None:
    """Return when a notice becomes due, or leaves too little time for a remote save, or None."""
    fit_ns = int(FIT_SAVES * policy.save_time_s * 1e9)
    times = [
        notice.deadline.mono_ns - before_ns
        for notice in notices
        if notice.deadline
        for before_ns in (lead_ns(policy), fit_ns - 1)
    ]
    return min((time for time in times if time > now.mono_ns), default=None)


def lead_ns(policy: PolicySettings) -> int:
    """Return how long before a scheduled end training is asked to stop, in ns."""
    usual_s = LEAD_SAVES * policy.save_time_s + LEAD_EXTRA_S
    return int((policy.notice_lead_s or usual_s) * 1e9)


def _is_due(policy: PolicySettings, notice: Notice, now: Moment) -> bool:
    """Tell whether a notice asks for something now. A stop in two weeks does not."""
    if notice.action in HARMLESS:
        return False
    if notice.kind in SOON or notice.deadline is None:
        return True
    return notice.deadline.mono_ns - now.mono_ns <= lead_ns(policy)


def _must_stop_for_power(conditions: Conditions) -> bool:
    power = conditions.power
    critical = power.state is PowerState.LOW or power.forced_shutdown
    return critical and power.confirmed


def _ends_soon(notice: Notice) -> bool:
    return notice.action in ENDING


def _ends_training(notice: Notice) -> bool:
    """Tell whether training must end for a notice that is due.

    Maintenance without a time, and actions that no vendor has told of yet, may be harmless: they
    ask for a checkpoint. With a time they are believed to end processes then.
    """
    if notice.kind == "rebalance":
        return False
    return notice.action in ENDS_PROCESSES or notice.deadline is not None


def _uploads(conditions: Conditions, due: tuple[Notice, ...], *, low: bool) -> Uploads:
    if conditions.network_held:
        return Uploads.HOLD
    if low or any(_ends_soon(notice) for notice in due):
        return Uploads.NEWEST
    if conditions.operator_uploads:
        return Uploads.HOLD
    if conditions.flapping and not conditions.on_battery:
        return Uploads.HOLD
    return Uploads.GO


def _checkpoint(
    policy: PolicySettings,
    conditions: Conditions,
    due: tuple[Notice, ...],
    now: Moment,
    *,
    low: bool,
) -> CheckpointRequest | None:
    deadline = min(_deadlines(conditions, due, low=low), default=None)
    local_only = (
        deadline is not None and deadline - now.mono_ns < FIT_SAVES * policy.save_time_s * 1e9
    )
    if due:
        return CheckpointRequest(notice_id(due[0]), _notice_text(due[0]), local_only=local_only)
    if low:
        identity = f"power-low-{conditions.power_since.mono_ns}"
        return CheckpointRequest(identity, _low_text(conditions), local_only=local_only)
    if not conditions.on_battery:
        return None
    runtime_s = conditions.power.runtime_s
    return CheckpointRequest(
        f"power-{conditions.battery_since_ns}",
        "on battery" if conditions.power.state in _DARK else "was on battery",
        every_s=None if runtime_s is None else max(1.0, runtime_s / RUNTIME_SHARE),
    )


def _stop(conditions: Conditions, due: tuple[Notice, ...], *, low: bool) -> StopRequest | None:
    stopping = tuple(notice for notice in due if _ends_training(notice))
    if not stopping and not low:
        return None
    deadline = min(_deadlines(conditions, stopping, low=low), default=None)
    if stopping:
        notice = stopping[0]
        return StopRequest(notice_id(notice), _notice_text(notice), deadline)
    identity = f"power-low-{conditions.power_since.mono_ns}"
    return StopRequest(identity, _low_text(conditions), deadline)


def _low_text(conditions: Conditions) -> str:
    return "forced shutdown by the UPS" if conditions.power.forced_shutdown else "battery low"


def _deadlines(conditions: Conditions, due: tuple[Notice, ...], *, low: bool) -> Iterator[int]:
    yield from (notice.deadline.mono_ns for notice in due if notice.deadline)
    runtime_s = conditions.power.runtime_s
    if low and runtime_s is not None:
        left_s = max(0.0, runtime_s - STOP_MARGIN_S)
        yield conditions.power_seen.mono_ns + int(left_s * 1e9)


def notice_id(notice: Notice) -> str:
    """Return what identifies a request that comes from ``notice``, stable while it stands."""
    return f"{notice.kind}-{notice.action}-{notice.seen.mono_ns}"


def _notice_text(notice: Notice) -> str:
    return f"{notice.kind} notice: {notice.action} ({notice.source})"
