"""What the relay knows of one node, and what a message makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.model import Moment
from linkhold.relay.decide import digest, gaps
from linkhold.relay.decide.texts import alert_name
from linkhold.relay.decide.values import Birth, Happened, Report, Status

if TYPE_CHECKING:
    from linkhold.relay.decide.digest import Back, Digest
    from linkhold.relay.decide.gaps import Tracks
    from linkhold.relay.decide.values import Heard, Key

MOST_FORMER = 8
MOST_OPENED = 32
MOST_GONE_S = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Times are the relay's own, where a :class:`Moment` tells them.

    ``online`` are the brokers by which it is there; ``claimed`` those that only kept its word: one
    with persistence keeps it over a restart, whatever became of the node meanwhile.
    ``offline`` is since when no broker has it, by its will or its own word; ``missed`` since when
    nobody knows, because the brokers in ``lost_on`` were lost. ``opened`` are alerts of which only
    an event told: a node that was cut off opens and closes alerts that no state shows. Events
    before ``dealt_until_s`` may have been dealt with by the relay before this one, which knew the
    node gone since ``gone_s`` (wall clock).
    """

    key: Key
    online: frozenset[str] = frozenset()
    claimed: frozenset[str] = frozenset()
    offline: Moment | None = None
    offline_at_start: bool = False
    missed: Moment | None = None
    lost_on: frozenset[str] = frozenset()
    report: Report | None = None
    birth: Birth | None = None
    former: tuple[str, ...] = ()
    tracks: Tracks = ()
    events_missing: int = 0
    events_repeated: int = 0
    opened: tuple[digest.Opened, ...] = ()
    unseen: tuple[digest.Unseen, ...] = ()
    unseen_since: Moment | None = None
    back: Back | None = None
    digest: Digest | None = None
    stopped: bool = False
    dealt_until_s: float = 0.0
    gone_s: float | None = None

    @property
    def site(self) -> str:
        """The site's name."""
        return self.key[0]

    @property
    def name(self) -> str:
        """The node's name."""
        return self.key[1]

    @property
    def is_offline(self) -> bool:
        """Whether a broker says that it is gone, and none that it is there."""
        return self.offline is not None

    @property
    def planned(self) -> str:
        """Why it stopped on purpose; empty when it did not, or runs."""
        if self.birth is not None and self.birth.planned:
            return self.birth.planned
        stopping = self.stopped and self.report is not None and self.report.stopping
        return "the machine was shut down" if stopping else ""


def take(node: Node, heard: Heard, now: Moment) -> Node:
    """Return the node after a message of it."""
    body = heard.body
    vouched = heard.broker in node.claimed
    if not heard.retained and vouched:
        node = replace(node, claimed=node.claimed - {heard.broker})
    if isinstance(body, Status):
        return _status(node, heard, body, now)
    if isinstance(body, Birth):
        return _birth(node, body, now)
    before = node
    if isinstance(body, Report):
        node = _report(node, body, now, retained=heard.retained)
    elif isinstance(body, Happened):
        node = _happened(node, body, now)
    if vouched and node.is_offline and node is not before:  # the broker's word was true
        node = _status(node, replace(heard, retained=False), Status(online=True), now)
    return node


def _status(node: Node, heard: Heard, status: Status, now: Moment) -> Node:
    if status.online:
        if heard.retained and node.is_offline and not node.offline_at_start:
            # It was seen to go: a broker that was away meanwhile may keep an older word.
            return replace(node, claimed=node.claimed | {heard.broker})
        back = node.back
        # Found offline at the start, and then on another broker: it was never away.
        found = node.offline_at_start and heard.retained
        if node.offline is not None and not node.planned and not found:
            back = digest.returned(node.offline, node.report, now)
        return replace(
            node,
            online=node.online | {heard.broker},
            claimed=node.claimed | {heard.broker} if heard.retained else node.claimed,
            offline=None,
            offline_at_start=False,
            missed=None,
            lost_on=frozenset(),
            back=back,
            stopped=False,
            gone_s=None,
        )
    online = node.online - {heard.broker}
    if online or node.offline is not None:
        return replace(node, online=online)
    return replace(
        node,
        online=online,
        offline=_gone(node, now) if heard.retained else now,
        offline_at_start=heard.retained,
        missed=None,
        lost_on=frozenset(),
        stopped=True,
    )


def _gone(node: Node, now: Moment) -> Moment:
    """Return since when a node is gone that was so when the relay looked: no broker tells that."""
    if node.gone_s is None:
        return now
    ago_s = max(0.0, min(now.wall_s - node.gone_s, MOST_GONE_S))
    return Moment(now.mono_ns - int(ago_s * 1e9), now.wall_s - ago_s)


def broker_lost(node: Node, broker: str, now: Moment) -> Node:
    """Return the node after a broker was lost: what that one said counts no more."""
    if broker not in node.online:
        return node
    online = node.online - {broker}
    lost_on = node.lost_on | {broker}
    if online or node.offline is not None:
        return replace(node, online=online, lost_on=lost_on if not online else frozenset())
    return replace(node, online=online, missed=node.missed or now, lost_on=lost_on)


def _birth(node: Node, birth: Birth, now: Moment) -> Node:
    """Take in a birth; one of an earlier session may lie on a broker that the node left."""
    if node.birth is not None and birth.started_s < node.birth.started_s:
        return node
    tracks = gaps.begin(
        node.tracks, birth.session, birth.previous_session, birth.previous_seq, now.mono_ns
    )
    return replace(node, birth=birth, tracks=tracks)


def _report(node: Node, report: Report, now: Moment, *, retained: bool) -> Node:
    before = node.report
    if before is not None and not is_newer(report, before, node.former, live=not retained):
        return node
    report = replace(report, maintenance_until_s=_work_until_s(report, now, retained=retained))
    former = node.former
    if before is not None and before.boot_id != report.boot_id:
        former = (*former, before.boot_id)[-MOST_FORMER:]
    seen = {alert.fingerprint for alert in report.alerts}
    opened = tuple(one for one in node.opened if one.fingerprint not in seen)
    back = node.back
    if back is not None:
        back = digest.reported(back, report, now)
    return replace(node, report=report, former=former, opened=opened, back=back)


def _work_until_s(report: Report, now: Moment, *, retained: bool) -> float:
    """Return when a node's planned work ends by our clock.

    The node's own may be wrong, by years even, and a node that then dies would never be missed:
    no work lasts longer than the state says that it has to go.
    """
    if not report.maintenance_until_s:
        return 0.0
    latest_s = now.wall_s + report.maintenance_left_s
    if not report.clock_synced and not retained:
        return latest_s
    return min(report.maintenance_until_s, latest_s)


def is_newer(report: Report, than: Report, former: tuple[str, ...], *, live: bool) -> bool:
    """Tell which of two states of a node is the newer one, over all brokers.

    States of one boot are in order. Of two boots, one that was seen to end is the older; else the
    one that began later, by the node's own clock; where that clock was not set, the one that is
    being said now.
    """
    if report.boot_id == than.boot_id:
        return report.order > than.order
    if report.boot_id in former:
        return False
    if report.clock_synced and than.clock_synced:
        return report.boot_s > than.boot_s
    return live or report.boot_s > than.boot_s


def _happened(node: Node, event: Happened, now: Moment) -> Node:
    tracks, news = gaps.arrived(node.tracks, event.session, event.seq, now.mono_ns)
    if not news:
        return replace(node, events_repeated=node.events_repeated + 1)
    node = replace(node, tracks=tracks)
    if event.type == "agent.replayed":
        tracks, lost = gaps.answered(tracks, str(event.data.get("request")), now.mono_ns)
        node = replace(node, tracks=tracks, events_missing=node.events_missing + lost)
    if node.back is not None:
        node = replace(node, back=digest.noted(node.back, event, now))
    if event.type == "alert.opened":
        return _opened(node, event)
    return _closed(node, event, now) if event.type == "alert.closed" else node


def _opened(node: Node, event: Happened) -> Node:
    one = digest.opened(event)
    alerts = node.report.alerts if node.report is not None else ()
    if any(alert.fingerprint == one.fingerprint for alert in alerts):
        return node
    return replace(node, opened=(*node.opened, one)[-MOST_OPENED:])


def _closed(node: Node, event: Happened, now: Moment) -> Node:
    """Take in the end of an alert: one that no state showed has not been told to anybody."""
    fingerprint = str(event.data.get("fingerprint"))[:64]
    one = next((one for one in node.opened if one.fingerprint == fingerprint), None)
    if one is None or event.at_s < node.dealt_until_s:
        return node
    unseen = digest.Unseen(alert_name(one.type), one.subject, one.at_s, event.at_s, one.text)
    return replace(
        node,
        opened=tuple(other for other in node.opened if other is not one),
        unseen=(*node.unseen, unseen)[-MOST_OPENED:],
        unseen_since=now,
    )
