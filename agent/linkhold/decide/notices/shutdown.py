"""A shutdown of this machine by its own system, from what logind says."""

from __future__ import annotations

from dataclasses import dataclass

from linkhold.model import Moment, Notice

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
