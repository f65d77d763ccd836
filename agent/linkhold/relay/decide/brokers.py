"""What should be firing about the relay itself and the brokers that it listens to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.relay.decide.pages import in_maintenance
from linkhold.relay.decide.texts import clock, cut, some
from linkhold.relay.decide.values import page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from linkhold.config.relay import RelaySettings
    from linkhold.model import Moment
    from linkhold.relay.decide.node import Node
    from linkhold.relay.decide.places import Places
    from linkhold.relay.decide.values import Page

DOWN_AFTER_S = 30.0
"""A broker is told as down after this; one that restarts is back sooner."""


@dataclass(frozen=True, slots=True)
class Away:
    """A broker that cannot be reached."""

    broker: str
    since: Moment
    reason: str

    def lasts(self, seconds: float, now: Moment) -> bool:
        """Tell whether it has been away for so long."""
        return now.seconds_since(self.since) >= seconds


def alive(settings: RelaySettings, began_s: float) -> Page:
    """Return the relay's own life sign."""
    words = {
        "summary": f"relay {settings.name} is alive",
        "description": "always firing: when it stops, the relay or its way here is gone",
    }
    return page("LinkholdRelayAlive", "none", began_s, {"relay": settings.name}, words)


def pages(
    settings: RelaySettings,
    away: Sequence[Away],
    count: int,
    nodes: Iterable[Node],
    places: Places,
    now: Moment,
) -> Iterator[Page]:
    """Yield what fires about the brokers that are ``away``, of ``count`` in all."""
    down = [one for one in away if one.lasts(DOWN_AFTER_S, now)]
    for one in down:
        yield _down(one, settings.runbook_url)
    if down and len(down) == count:
        yield _unseen(down, settings.runbook_url)
    elif long := [one for one in down if one.lasts(settings.paging.gone_s, now)]:
        for one, unseen in _lost_with(long, nodes, now):
            yield _part_unseen(one, unseen, places, settings.runbook_url)


def _lost_with(
    away: Sequence[Away], nodes: Iterable[Node], now: Moment
) -> Iterator[tuple[Away, list[Node]]]:
    """Yield brokers, and the nodes that were on them and came to no other broker."""
    missed = [node for node in nodes if node.missed is not None and not in_maintenance(node, now)]
    for one in away:
        found = [node for node in missed if one.broker in node.lost_on and not node.planned]
        if found:
            yield one, found


def _down(one: Away, runbook: str) -> Page:
    words = {
        "summary": f"fleet broker {one.broker} cannot be reached: {one.reason}",
        "description": f"Since {clock(one.since.wall_s)}. Nodes go on to the next broker of their "
        "list and keep their events on disk. Training is not affected.",
        "next": f"on the broker's machine: systemctl status mosquitto; "
        f"nc -vz {' '.join(one.broker.rsplit(':', 1))}",
        "runbook_url": runbook,
    }
    labels = {"broker": one.broker}
    return page("FleetBrokerDown", "warning", one.since.wall_s, labels, words)


def _unseen(down: Sequence[Away], runbook: str) -> Page:
    since = max((one.since for one in down), key=lambda since: since.mono_ns)
    words = {
        "summary": "no fleet broker can be reached: nobody sees the nodes",
        "description": "Alerts stay as they were. What happens now is kept by the nodes and told "
        "when a broker is back. Training is not affected.",
        "next": "look at the brokers; on a node: linkhold status",
        "runbook_url": runbook,
    }
    return page("FleetUnseen", "critical", since.wall_s, {}, words)


def _part_unseen(one: Away, nodes: Sequence[Node], places: Places, runbook: str) -> Page:
    racks = Counter(places.of(node.key).rack for node in nodes)
    named = [f"{count} in rack {rack}" for rack, count in racks.most_common(5) if rack]
    where = f" ({', '.join(named)})" if named else ""
    what = f"{len(nodes)} nodes went out of sight with broker {one.broker}{where}"
    words = {
        "summary": f"{what} and came to no other broker",
        "description": cut(
            f"What: {what}: {some((node.name for node in nodes), 20)}. Since: "
            f"{clock(one.since.wall_s)}. They are dark together with the broker, or reach none of "
            "the others, or are well and only the relay does not reach this one: nobody knows. "
            "Training: runs with a rank on a dark node stall in their next collective."
        ),
        "next": f"ping {min(node.name for node in nodes)}; look at the power and the switches "
        "of the broker's rack",
        "runbook_url": runbook,
    }
    labels = {"broker": one.broker}
    return page("FleetPartUnseen", "critical", one.since.wall_s, labels, words)
