"""What should be firing for one node now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.relay.decide.texts import (
    alert_name,
    clock,
    cut,
    lasted,
    next_command,
)
from linkhold.relay.decide.values import page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.config.relay import PagingSettings
    from linkhold.model import Moment
    from linkhold.relay.decide.node import Node
    from linkhold.relay.decide.places import Place
    from linkhold.relay.decide.values import NodeAlert, Page, Report

SECOND_NS = 10**9


@dataclass(frozen=True, slots=True)
class Sky:
    """What the relay itself can see: since when it is connected to each broker, in ns.

    A broker it is not connected to is None. ``settled_ns`` is when what it found at its start
    counts: every broker has told, or had the time to.
    """

    brokers: Mapping[str, int | None]
    settled_ns: int
    paging: PagingSettings
    runbook_url: str = ""


def missing_since(node: Node, sky: Sky) -> int | None:
    """Return when (ns) a node counts as offline, None when it does not as things are."""
    paging = sky.paging
    if node.offline is not None:
        if node.planned:
            return node.offline.mono_ns + int(paging.return_s * 1e9)
        due = node.offline.mono_ns + int(paging.offline_after_s * 1e9)
        return max(due, sky.settled_ns) if node.offline_at_start else due
    if node.missed is None:
        return None
    back = [sky.brokers.get(name) for name in node.lost_on]
    known = [since for since in back if since is not None]
    if len(known) < len(back):
        return None  # its broker is away: nobody knows, and that is told once for all nodes
    return max(known, default=node.missed.mono_ns) + int(paging.gone_s * 1e9)


def is_missing(node: Node, sky: Sky, now: Moment) -> bool:
    """Tell whether a node counts as offline now."""
    due = missing_since(node, sky)
    return due is not None and now.mono_ns >= due


def in_maintenance(node: Node, now: Moment) -> bool:
    """Tell whether planned work is announced for a node; its end is of the wall clock."""
    return node.report is not None and now.wall_s < node.report.maintenance_until_s


def is_quiet(node: Node, sky: Sky, now: Moment) -> bool:
    """Tell whether nobody is to be paged for a node: planned work, or a planned stop."""
    if in_maintenance(node, now):
        return True
    return bool(node.planned) and node.is_offline and not is_missing(node, sky, now)


def pages(node: Node, place: Place, sky: Sky, now: Moment) -> Iterator[Page]:
    """Yield what should be firing for a node."""
    if is_quiet(node, sky, now):
        return
    if is_missing(node, sky, now):
        yield _offline(node, place, sky)
    if node.report is not None:
        for alert in node.report.alerts:
            yield _alert(node, node.report, alert, place, sky)
    if node.digest is not None and now.mono_ns < node.digest.until_ns:
        told = node.digest
        severity = "info" if told.name == "NodeHadAlerts" else "warning"
        texts = {
            "summary": f"{node.name} ({node.site}) {told.summary}",
            "description": told.description,
            "next": f"ssh {node.name} linkhold events --since 1d",
            "runbook_url": sky.runbook_url,
        }
        labels = _labels(node, place, switch=place.switch)
        yield page(told.name, severity, told.starts_s, labels, texts)


def wakes(node: Node, sky: Sky, now: Moment) -> Iterator[int]:
    """Yield when time alone changes something, in ns; what has passed is left out."""
    times = [missing_since(node, sky)]
    if node.back is not None:
        times.append(node.back.due_ns)
    if node.unseen_since is not None:
        times.append(node.unseen_since.mono_ns + 5 * SECOND_NS)
    if node.digest is not None:
        times.append(node.digest.until_ns)
    if in_maintenance(node, now) and node.report is not None:
        left_s = node.report.maintenance_until_s - now.wall_s
        times.append(now.mono_ns + int(min(left_s, 60.0) * 1e9) + SECOND_NS)
    for time in times:
        if time is not None and time > now.mono_ns:
            yield time


def _labels(node: Node, place: Place, *, switch: str = "", subject: str = "") -> dict[str, str]:
    return {
        "site": node.site,
        "node": node.name,
        "rack": place.rack,
        "switch": switch,
        "subject": subject,
    }


def _alert(node: Node, report: Report, alert: NodeAlert, place: Place, sky: Sky) -> Page:
    name = alert_name(alert.type)
    lost = dict(report.lost).get(alert.subject, (alert.subject,))
    switches = {place.switch_of(link) for link in lost}
    switch = switches.pop() if len(switches) == 1 else ""
    texts = {
        "summary": cut(f"{node.name} ({node.site}): {alert.text}"),
        "description": cut(
            f"What: {alert.text}. Where: {alert.subject} of {node.name}, site {node.site}"
            f"{_where(place)}. Since: {clock(alert.since_s)}. Still protects: {report.protection}. "
            f"Training: {report.training}."
        ),
        "since": clock(alert.since_s),
        "protection": cut(report.protection),
        "training": cut(report.training),
        "next": next_command(alert.type, node.name),
        "runbook_url": sky.runbook_url,
    }
    labels = _labels(node, place, switch=switch, subject=alert.subject)
    return page(name, alert.severity, alert.since_s, labels, texts)


def _where(place: Place) -> str:
    rack = f", rack {place.rack}" if place.rack else ""
    return rack + (f", switch {place.switch}" if place.switch else "")


def _offline(node: Node, place: Place, sky: Sky) -> Page:
    since = node.offline or node.missed
    since_s = since.wall_s if since is not None else 0.0
    what, known = _gone(node, sky), node.report
    protection = known.protection if known is not None else "nobody knows"
    training = (
        "a run on it goes on without the agent if only the way to the broker is cut; "
        "if the machine is down, the job stalls in its next collective"
    )
    texts = {
        "summary": f"{node.name} ({node.site}) is offline: {what}",
        "description": cut(
            f"What: {what}. Where: {node.name}, site {node.site}{_where(place)}. Since: "
            f"{clock(since_s)}. As it said last: {protection}. Training: {training}."
        ),
        "since": clock(since_s),
        "protection": cut(protection),
        "training": training,
        "next": f"ping {node.name}; its console; then: ssh {node.name} linkhold diagnose",
        "runbook_url": sky.runbook_url,
    }
    labels = _labels(node, place, switch=place.switch)
    return page("NodeOffline", "critical", since_s, labels, texts)


def _gone(node: Node, sky: Sky) -> str:
    if node.planned:
        after = lasted(sky.paging.return_s)
        return f"it was stopped on purpose ({node.planned}) and is not back after {after}"
    if node.offline is None:
        return f"it did not come back with its broker ({', '.join(sorted(node.lost_on))})"
    if node.offline_at_start:
        return "it was offline when the relay looked"
    return "its connection ended without a word"
