"""What is kept of a state of one of many nodes with the same name (:mod:`linkhold.roster`). Pure.

One node may be all of them: what it says at each of the sites that it made up has to be little.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.relay.decide.values import Report

if TYPE_CHECKING:
    from linkhold.relay.decide.values import Heard

MOST_ALERTS = 8
MOST_LINKS = 64
MOST_BONDS = 8
_ORDER = ("critical", "warning", "info")


def brief(heard: Heard) -> tuple[Heard, int]:
    """Return a message with the worst alerts of its state, and how many others it had."""
    report = heard.body
    if not isinstance(report, Report):
        return heard, 0
    alerts = report.alerts
    if len(alerts) > MOST_ALERTS:
        alerts = tuple(sorted(alerts, key=lambda one: _ORDER.index(one.severity))[:MOST_ALERTS])
    short = replace(
        report,
        alerts=alerts,
        links=frozenset(sorted(report.links)[:MOST_LINKS]),
        dark=frozenset(sorted(report.dark)[:MOST_LINKS]),
        lost=tuple((bond, members[:MOST_BONDS]) for bond, members in report.lost[:MOST_BONDS]),
    )
    return replace(heard, body=short), len(report.alerts) - len(alerts)
