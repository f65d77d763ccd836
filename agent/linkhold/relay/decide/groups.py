"""One page for what many nodes have in common: a dark rack or site, a dead switch, lost mains."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.relay.decide.pages import in_maintenance, is_missing
from linkhold.relay.decide.texts import clock, cut, some
from linkhold.relay.decide.values import page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.relay import PagingSettings
    from linkhold.model import Moment
    from linkhold.relay.decide.node import Node
    from linkhold.relay.decide.pages import Sky
    from linkhold.relay.decide.places import Place, Places
    from linkhold.relay.decide.values import Key, Page

Group = tuple[str, str, str]
"""Kind, site and name of what nodes have in common; the name of a site's group is empty."""
Share = tuple[Group, bool]
"""A group of a node, and whether the node has the fault."""

SITE_DARK, RACK_DARK, SWITCH_DOWN = "SiteDark", "RackDark", "SwitchDown"
POWER_LOST = "SitePowerLost"

WHAT = {
    SITE_DARK: "of the site are offline",
    RACK_DARK: "of the rack are offline",
    SWITCH_DOWN: "of the switch have lost it",
    POWER_LOST: "of the site run on battery",
}
NEXT = {
    SITE_DARK: "look at the site's uplink and power first; then linkhold diagnose on any node",
    RACK_DARK: "look at the rack's power and top switch; its nodes' consoles",
    SWITCH_DOWN: "look at the switch; on any of its nodes: linkhold bond status",
    POWER_LOST: "ask the site about its mains; on any node: linkhold status",
}
TRAINING = {
    SITE_DARK: "runs of the site go on alone at best, and cannot upload",
    RACK_DARK: "runs with a rank in the rack stall in their next collective",
    SWITCH_DOWN: "nodes with a second link to another switch go on; the others stall",
    POWER_LOST: "training was asked to save, and stops before batteries are empty",
}


@dataclass(slots=True)
class Members:
    """The nodes of a group, those with the fault, and since when the group is told."""

    every: set[Key] = field(default_factory=set)
    faulty: set[Key] = field(default_factory=set)
    since: Moment | None = None


def shares(node: Node, place: Place, sky: Sky, now: Moment) -> frozenset[Share]:
    """Return the groups of a node, and in which of them it has the fault.

    One in maintenance, or stopped on purpose, is in none: it says nothing about the others.
    """
    if in_maintenance(node, now) or (node.is_offline and node.planned):
        return frozenset()
    found: dict[Group, bool] = {}
    for group, faulty in _shares(node, place, dark=is_missing(node, sky, now)):
        found[group] = found.get(group, False) or faulty
    return frozenset(found.items())


def _shares(node: Node, place: Place, *, dark: bool) -> Iterator[Share]:
    yield (SITE_DARK, node.site, ""), dark
    if place.rack:
        yield (RACK_DARK, node.site, place.rack), dark
    if place.switch:
        yield (SWITCH_DOWN, node.site, place.switch), dark
    report = node.report
    if report is None:
        return
    for link, switch in place.links.items():
        if link in report.links:
            yield (SWITCH_DOWN, node.site, switch), dark or link in report.dark
    yield (POWER_LOST, node.site, ""), report.power in {"battery", "low"}


class Groups:
    """All groups, kept up to date node by node."""

    def __init__(self, paging: PagingSettings, places: Places) -> None:
        self._paging = paging
        self._places = places
        self._members: dict[Group, Members] = {}
        self._shares: dict[Key, frozenset[Share]] = {}

    def put(self, key: Key, after: frozenset[Share], now: Moment) -> set[Group]:
        """Replace what a node has in common with others; return the groups that changed."""
        before = self._shares.get(key, frozenset())
        if after == before:
            return set()
        for group, _ in before - after:
            members = self._members[group]
            members.every.discard(key)
            members.faulty.discard(key)
        for group, faulty in after:
            members = self._members.setdefault(group, Members())
            members.every.add(key)
            if faulty:
                members.faulty.add(key)
        if after:
            self._shares[key] = after
        else:
            self._shares.pop(key, None)
        changed = {group for group, _ in before ^ after}
        for group in changed:
            self._judge(group, now)
        return changed

    def faulty(self, group: tuple[str, ...]) -> set[tuple[str, ...]]:
        """Return the nodes of a group that have the fault; none of what is no group."""
        found = (m.faulty for known, m in self._members.items() if known == group)
        return set(next(found, ()))

    def _judge(self, group: Group, now: Moment) -> None:
        """Begin or end the group's alert; it ends at half of what began it, so as not to flap."""
        members, paging = self._members[group], self._paging
        faulty, every = len(members.faulty), len(members.every)
        if not every:
            del self._members[group]
        elif members.since is None:
            if faulty >= paging.group_least and faulty >= paging.group_share * every:
                members.since = now
        elif faulty < paging.group_least / 2 or faulty < paging.group_share * every / 2:
            members.since = None

    def page(self, group: Group, sky: Sky) -> Page | None:
        """Return what should be firing for a group, None for nothing."""
        members = self._members.get(group)
        if members is None or members.since is None:
            return None
        kind, site, name = group
        rack = name if kind == RACK_DARK else self._places.rack_of(name)
        labels = {"site": site, "rack": rack, "switch": name if kind == SWITCH_DOWN else ""}
        what = f"{len(members.faulty)} of {len(members.every)} nodes {WHAT[kind]}"
        where = f"{name} ({site})" if name else site
        since_s = members.since.wall_s
        names = some((node for _, node in members.faulty), 20)
        texts = {
            "summary": f"{where}: {what}",
            "description": cut(
                f"What: {what}: {names}. Where: {where}. Since: {clock(since_s)}. "
                f"Training: {TRAINING[kind]}."
            ),
            "since": clock(since_s),
            "training": TRAINING[kind],
            "next": NEXT[kind],
            "runbook_url": sky.runbook_url,
        }
        return page(kind, "critical", since_s, labels, texts)
