"""All nodes of the fleet as the brokers show them: the newest state of each, and who is there.

The picture of thousands of nodes is changed in place; each node in it is a frozen value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.fleet_view.presence import Present, read_state
from linkhold.fleet_view.words import printable
from linkhold.model import WireError
from linkhold.roster import Roster
from linkhold.wire import ROOT, load_json

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = tuple[str, str]
"""A node: site and name."""

LEAVES = ("status", "state", "birth")
MOST_OF_MANY = 1 << 16
"""Bytes of a state of one of many nodes with the same name; what agents send has some thousands."""
_LEVELS = 5


@dataclass(frozen=True, slots=True)
class Heard:
    """One message of a node by one broker; ``at_s`` is our wall clock."""

    broker: str
    topic: str
    payload: bytes
    retained: bool
    at_s: float


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node.

    ``online`` and ``offline`` are the brokers that say so. ``gone_s`` is when it was seen to go,
    by our clock; None when that was before we came. ``planned`` is why it stopped on purpose.
    """

    key: Key
    present: Present | None = None
    problem: str = ""
    online: frozenset[str] = frozenset()
    offline: frozenset[str] = frozenset()
    gone_s: float | None = None
    planned: str = ""
    started: str = ""

    @property
    def presence(self) -> str:
        """``online``, ``offline``, ``stopped`` (on purpose), or ``unseen``: no broker tells."""
        if self.online:
            return "online"
        if not self.offline:
            return "unseen"
        return "stopped" if self.planned else "offline"

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it any more: its retained messages were cleared."""
        told = self.problem or self.online or self.offline or self.started
        return self.present is None and not told


def split_topic(topic: str) -> tuple[Key, str] | None:
    """Return the node and the last level of a topic of the fleet, None for any other topic."""
    if not topic.startswith(f"{ROOT}/"):
        return None
    levels = topic.split("/")
    if len(levels) < _LEVELS:
        return None
    return (levels[2], levels[3]), "/".join(levels[4:])


class Fleet:
    """Every node; ``left_out`` counts messages of nodes without room, ``why`` says in words."""

    def __init__(self) -> None:
        self.nodes: dict[Key, NodeView] = {}
        self._roster = Roster()
        self.left_out = 0
        self.why: list[str] = []

    def take(self, heard: Heard) -> None:
        """Take one message in; what is no message of a node is ignored."""
        place = split_topic(heard.topic)
        if place is None or place[1] not in LEAVES:
            return
        key, leaf = place
        node = self.nodes.get(key)
        if node is None and not self._roster.has_room(key[1]):
            self.left_out += 1
            if why := self._roster.refused(key[1]):
                self.why.append(printable(why))
            return
        take = _TAKEN[leaf]
        if leaf == "state" and self._roster.is_many(key[1]) and len(heard.payload) > MOST_OF_MANY:
            take = _too_large
        after = take(node or NodeView(key), heard)
        if not after.is_empty:
            self.nodes[key] = after
            if node is None:
                self._roster.enter(key[1])
        elif node is not None:
            del self.nodes[key]
            self._roster.leave(key[1])

    def broker_lost(self, broker: str) -> None:
        """Forget what a broker said of who is there; states stay, with their age."""
        for key, node in self.nodes.items():
            if broker in node.online or broker in node.offline:
                self.nodes[key] = replace(
                    node, online=node.online - {broker}, offline=node.offline - {broker}
                )

    def select(self, names: Iterable[str]) -> list[NodeView]:
        """Return the nodes called ``node`` or ``site/node``; all nodes without names."""
        wanted = set(names)
        return [
            node
            for key, node in sorted(self.nodes.items())
            if not wanted or key[1] in wanted or "/".join(key) in wanted
        ]


def _state(node: NodeView, heard: Heard) -> NodeView:
    if not heard.payload:
        return replace(node, present=None, problem="")
    try:
        present = read_state(heard.payload)
    except WireError as error:
        if node.present is not None and heard.retained:
            return node  # another broker has one that can be read
        return replace(node, problem=printable(error, 200))
    before = node.present
    if before is not None and not present.is_newer(before, live=not heard.retained):
        return node
    # By the node's own clock planned work may end in years: no later than it has to go from now.
    ends_s = min(present.work_until_s, heard.at_s + present.work_left_s)
    return replace(node, present=replace(present, work_until_s=ends_s), problem="")


def _too_large(node: NodeView, heard: Heard) -> NodeView:
    """Leave a state unread; one node may be all of those that have its name."""
    size = len(heard.payload)
    problem = f"a state of {size} bytes; at most {MOST_OF_MANY} of a name that is at so many sites"
    return replace(node, problem=problem)


def _status(node: NodeView, heard: Heard) -> NodeView:
    online, offline = node.online - {heard.broker}, node.offline - {heard.broker}
    if not heard.payload:
        return replace(node, online=online, offline=offline)
    if heard.payload == b"online":
        return replace(node, online=online | {heard.broker}, offline=offline, gone_s=None)
    gone_s = node.gone_s
    if node.online and not online and not heard.retained:
        gone_s = heard.at_s
    return replace(node, online=online, offline=offline | {heard.broker}, gone_s=gone_s)


def _birth(node: NodeView, heard: Heard) -> NodeView:
    """Take in a birth; one of an earlier session may lie on a broker that the node left."""
    if not heard.payload:
        return replace(node, started="", planned="")
    try:
        document = load_json(heard.payload)
        started, planned = str(document["started"])[:64], document.get("planned_stop")
    except (WireError, KeyError, TypeError, AttributeError):
        return node
    if started < node.started:  # RFC 3339 in UTC sorts as text
        return node
    return replace(node, started=started, planned=printable(planned, 200) if planned else "")


_TAKEN = {"state": _state, "status": _status, "birth": _birth}
