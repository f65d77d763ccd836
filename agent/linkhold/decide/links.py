"""Links: what changed between two looks, and what is remembered of each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.debounce import is_flapping
from linkhold.decide.happening import Happening
from linkhold.model import HostNetwork, Link, LinkHistory, Moment, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.config.settings import PolicySettings

Histories = dict[int, LinkHistory]


def first_sight(host: HostNetwork) -> list[Happening]:
    """Return one happening for each link when nothing is known from before."""
    return [
        Happening("link.up" if link.carrier else "link.down", link.name, {"initial": True})
        for link in host.links.values()
    ]


def compare(
    before: HostNetwork, after: HostNetwork, histories: Mapping[int, LinkHistory], now: Moment
) -> list[Happening]:
    """Return what happened to links, addresses and default routes between two looks."""
    found: list[Happening] = []
    for index, link in after.links.items():
        old = before.links.get(index)
        if old is None:
            found += _appeared(link)
        elif old != link:
            found += _changed(old, link, histories.get(index), now)
    found += [
        Happening("link.removed", old.name, {"kind": old.kind, "mac": old.mac}, Severity.WARNING)
        for index, old in before.links.items()
        if index not in after.links
    ]
    return [*found, *_addresses(before, after), *_routes(before, after)]


def _appeared(link: Link) -> Iterator[Happening]:
    yield Happening(
        "link.appeared", link.name, {"kind": link.kind, "mac": link.mac, "driver": link.driver}
    )
    if link.carrier:
        yield Happening("link.up", link.name)


def _changed(old: Link, new: Link, history: LinkHistory | None, now: Moment) -> Iterator[Happening]:
    if old.name != new.name:
        yield Happening("link.renamed", new.name, {"previous": old.name})
    if old.admin_up != new.admin_up:
        kind = "link.admin_up" if new.admin_up else "link.admin_down"
        yield Happening(kind, new.name, severity=Severity.INFO)
    yield from _edges(old, new, history, now)
    for field in ("mac", "mtu", "driver", "speed_mbps"):
        previous, value = getattr(old, field), getattr(new, field)
        # Driver and speed are filled in after the first look and at each link up.
        if previous != value and (field in {"mac", "mtu"} or (previous and value)):
            yield Happening(
                "link.changed", new.name, {"field": field, "previous": previous, "value": value}
            )


def came_up(before: HostNetwork | None, after: HostNetwork) -> bool:
    """Return whether a link has carrier that had none in the look before."""
    return before is not None and any(
        link.carrier and not (index in before.links and before.links[index].carrier)
        for index, link in after.links.items()
    )


def losses(old: Link, new: Link) -> tuple[int, int]:
    """Return how often carrier was (gained, lost) from ``old`` to ``new``.

    The kernel's counters show what happened between two looks; they start again when a driver
    registers the link anew, so a step backwards counts only the visible edge.
    """
    ups, downs = new.carrier_ups - old.carrier_ups, new.carrier_downs - old.carrier_downs
    if ups < 0 or downs < 0:
        ups = downs = 0
    if new.carrier and not old.carrier:
        ups = max(ups, 1)
    if old.carrier and not new.carrier:
        downs = max(downs, 1)
    return ups, downs


def _edges(old: Link, new: Link, history: LinkHistory | None, now: Moment) -> Iterator[Happening]:
    ups, downs = losses(old, new)
    if not ups and not downs:
        return
    counts = {"ups": new.carrier_ups, "downs": new.carrier_downs}
    if old.carrier == new.carrier:
        bounced = {"carrier": new.carrier, **counts, "bounces": max(ups, downs)}
        yield Happening("link.bounced", new.name, bounced, Severity.WARNING)
        return
    data: dict[str, object] = {**counts, "bounces": min(ups, downs)}
    if history is not None:
        data["previous_s"] = round(now.seconds_since(history.since), 3)
    if new.carrier:
        yield Happening("link.up", new.name, data)
    else:
        yield Happening("link.down", new.name, data, Severity.WARNING)


def _addresses(before: HostNetwork, after: HostNetwork) -> Iterator[Happening]:
    if before.addresses == after.addresses:
        return
    old = {(a.index, f"{a.address}/{a.prefix_len}") for a in before.addresses}
    new = {(a.index, f"{a.address}/{a.prefix_len}") for a in after.addresses}
    for index, address in sorted(new - old):
        yield Happening("address.added", _name(after, index), {"address": address})
    for index, address in sorted(old - new):
        yield Happening(
            "address.removed", _name(before, index), {"address": address}, Severity.WARNING
        )


def _routes(before: HostNetwork, after: HostNetwork) -> Iterator[Happening]:
    for route in sorted(after.routes - before.routes):
        data = {"family": route.family, "gateway": route.gateway, "metric": route.metric}
        yield Happening("route.default_added", _name(after, route.index), data)
    for route in sorted(before.routes - after.routes):
        data = {"family": route.family, "gateway": route.gateway, "metric": route.metric}
        yield Happening("route.default_removed", _name(before, route.index), data, Severity.WARNING)


def _name(host: HostNetwork, index: int) -> str:
    link = host.links.get(index)
    return link.name if link else f"interface {index}"


def remember(
    before: HostNetwork | None,
    after: HostNetwork,
    histories: Mapping[int, LinkHistory],
    now: Moment,
    keep_downs: int,
) -> Histories:
    """Return the histories after a look; links that are gone are forgotten."""
    kept: Histories = {}
    for index, link in after.links.items():
        old = before.links.get(index) if before else None
        history = histories.get(index)
        if old is None or history is None:
            kept[index] = history or LinkHistory(since=now, seen_up=link.carrier)
        elif old == link:
            kept[index] = history
        else:
            kept[index] = _next(old, link, history, now, keep_downs)
    return kept


def _next(old: Link, new: Link, history: LinkHistory, now: Moment, keep_downs: int) -> LinkHistory:
    _ups, downs = losses(old, new)
    times = (history.downs + (now.mono_ns,) * min(downs, keep_downs))[-keep_downs:]
    since = now if old.carrier != new.carrier or downs else history.since
    return replace(history, since=since, downs=times, seen_up=history.seen_up or new.carrier)


def flaps(
    host: HostNetwork, histories: Mapping[int, LinkHistory], now: Moment, policy: PolicySettings
) -> tuple[Histories, list[Happening]]:
    """Return the histories with flapping judged anew, and what began or ended."""
    judged: Histories = {}
    found: list[Happening] = []
    for index, history in histories.items():
        flapping = is_flapping(
            history.downs,
            now.mono_ns,
            count=policy.flap_downs,
            window_s=policy.flap_window_s,
            quiet_s=policy.flap_quiet_s,
        )
        if flapping != history.flapping:
            found.append(_flap(_name(host, index), history, policy, flapping=flapping))
        judged[index] = (
            history if flapping == history.flapping else replace(history, flapping=flapping)
        )
    return judged, found


def _flap(name: str, history: LinkHistory, policy: PolicySettings, *, flapping: bool) -> Happening:
    if not flapping:
        return Happening("link.steady", name, {"quiet_s": policy.flap_quiet_s})
    data = {"downs": len(history.downs), "window_s": policy.flap_window_s}
    return Happening("link.flapping", name, data, Severity.WARNING)
