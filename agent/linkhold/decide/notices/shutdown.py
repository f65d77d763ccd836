"""A shutdown of this machine by its own system, from what logind says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.model import Moment, Notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

QUIET_S = 10.0
"""A training process that does not listen to the agent is waited for so long: it hears of no stop.

It may be a notebook, or one that has closed its Hold and writes its last file; or it reads the
state file, which is seen within a second.
"""
ACTIONS = {"reboot": "reboot", "kexec": "reboot", "soft-reboot": "reboot", "poweroff": "stop",
           "halt": "stop"}  # fmt: skip
"""The types of shutdown that logind names, and the action of a notice."""


@dataclass(frozen=True, slots=True)
class LogindReport:
    """What logind says.

    ``preparing``: the machine goes down now and waits for our lock, ``delay_s`` at most.
    ``scheduled`` is the type of a planned shutdown (``shutdown -r +10``), ``at_s`` its time in
    seconds since 1970. ``locked``: we hold the delay lock. ``error`` says why nothing is known.
    """

    preparing: bool = False
    scheduled: str = ""
    at_s: float | None = None
    delay_s: float = 5.0
    locked: bool = False
    error: str = ""


def shutdown_notice(report: LogindReport, before: Notice | None, now: Moment) -> Notice | None:
    """Return the notice that stands after ``report``; ``before`` is the one that stood.

    Without contact what stood stands: a machine that goes down loses its bus on the way. The
    deadline of a shutdown that began is the end of the delay that logind grants.
    """
    if report.error:
        return before
    kind = report.scheduled.removeprefix("dry-")
    if not report.preparing and (not kind or report.at_s is None):
        return None
    action = ACTIONS.get(kind, "stop" if not kind else "unknown")
    if report.preparing:
        source, left_s = "logind: going down now", report.delay_s
    else:
        source, left_s = "logind: planned", (report.at_s or 0.0) - now.wall_s
    if before is not None and (before.source, before.action) == (source, action):
        return before
    deadline = Moment(now.mono_ns + int(left_s * 1e9), now.wall_s + left_s)
    return Notice("shutdown", action, source, now, deadline)


def awaited(
    training: Iterable[int],
    listening: frozenset[int] | None,
    quiet_since_ns: Mapping[int, int],
    now_ns: int,
) -> tuple[frozenset[int], Mapping[int, int]]:
    """Return the training processes that a shutdown waits for, and since when others are quiet.

    One that listens is waited for as long as it does. Where nobody knows who listens (``listening``
    is None) every one is.
    """
    if listening is None:
        return frozenset(training), quiet_since_ns
    there = frozenset(training)
    quiet = {pid: quiet_since_ns.get(pid, now_ns) for pid in there - listening}
    over = {pid for pid, since_ns in quiet.items() if now_ns - since_ns >= QUIET_S * 1e9}
    return there - over, quiet
