"""The picture of the fleet, and what should be firing: the whole of the relay's decisions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.relay.decide import brokers, digest, gaps
from linkhold.relay.decide.brief import brief
from linkhold.relay.decide.groups import Groups, shares
from linkhold.relay.decide.node import Node, broker_lost, take
from linkhold.relay.decide.pages import Sky, is_quiet, pages, wakes
from linkhold.relay.decide.places import Places
from linkhold.relay.decide.values import Ask, BrokerSeen, Cleared, Happened, Known, Outcome
from linkhold.roster import Roster

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from linkhold.config.relay import RelaySettings
    from linkhold.model import Moment
    from linkhold.relay.decide.values import Heard, Key, Labels, Page

SETTLE_S = 60.0
"""What was found at the start counts after this at the latest, whichever brokers are away."""
SETTLE_AFTER_S = 5.0
"""After the last broker is there: its retained messages come at once."""
RIPE_S = 30.0
"""A broker's retained messages have come, and who is absent counts as offline, after this and
``offline_after_s``."""
US = ("relay", "", "")
"""The owner of what fires about the relay itself and its brokers."""


class Picture:
    """Every node, and what should be firing. Times are handed in; nothing here waits.

    ``known`` is what the relay before this one knew.
    """

    def __init__(self, settings: RelaySettings, now: Moment, known: Known | None = None) -> None:
        known = known or Known()
        self._settings = settings
        self._places = Places(settings.places)
        self._groups = Groups(settings.paging, self._places)
        self._nodes: dict[Key, Node] = {
            key: Node(key, tracks=tracks, dealt_until_s=known.dealt_until_s)
            for key, tracks in known.tracks.items()
        }
        self._roster = Roster(name for _, name in self._nodes)
        self._gone = dict(known.gone)
        self._of_owner: dict[tuple[str, ...], frozenset[Labels]] = {}
        self._firing: dict[Labels, Page] = {}
        self._wakes: dict[Key, int] = {}
        self._brokers: dict[str, int | None] = {}
        self._broker_since: dict[str, tuple[Moment, str]] = {}
        self._began = now
        self._all_up: Moment | None = None
        self._seen: set[str] = set()
        self._check_at: dict[str, int] = {}
        self._check_now: list[tuple[str, Key]] = []
        self.counters: Counter[str] = Counter()

    @property
    def nodes(self) -> Mapping[Key, Node]:
        """Every node that was heard of."""
        return self._nodes

    @property
    def places(self) -> Places:
        """Where nodes stand."""
        return self._places

    @property
    def firing(self) -> Sequence[Page]:
        """Everything that should be firing now."""
        return tuple(self._firing.values())

    @property
    def alive(self) -> Labels:
        """What identifies the relay's own life sign."""
        return brokers.alive(self._settings, self._began.wall_s).labels

    def sky(self) -> Sky:
        """Return what the relay itself can see."""
        settled = self._began.mono_ns + int(SETTLE_S * 1e9)
        if self._all_up is not None:
            settled = min(settled, self._all_up.mono_ns + int(SETTLE_AFTER_S * 1e9))
        return Sky(self._brokers, settled, self._settings.paging, self._settings.runbook_url)

    def watch(self, brokers: Iterable[str], now: Moment) -> None:
        """Say which brokers there are; none is connected yet."""
        for broker in brokers:
            self._brokers[broker] = None
            self._broker_since[broker] = (now, "not connected yet")

    def take(self, message: Heard | BrokerSeen, now: Moment) -> Outcome:
        """Take one message in; return what it changes."""
        if isinstance(message, BrokerSeen):
            return self._broker(message, now)
        if isinstance(message.body, Cleared):
            return Outcome(tuple(self._forget(message.key, now)))
        node = self._nodes.get(message.key)
        if node is None:
            if not self._roster.has_room(message.key[1]):
                self.counters["nodes_ignored"] += 1
                return Outcome(words=self._roster.refused(message.key[1]))
            node = Node(message.key)
        message = self._shortened(message)
        if self._gone:
            node = replace(node, gone_s=self._gone.pop(message.key, node.gone_s))
        self.counters[f"messages_{type(message.body).__name__.lower()}"] += 1
        after = take(node, message, now)
        if after is node:
            return Outcome()
        if message.key not in self._nodes:
            self._roster.enter(message.key[1])
        self._nodes[message.key] = after
        if after.is_offline and message.broker in after.claimed - node.claimed:
            self._check_now.append((message.broker, message.key))
        if isinstance(message.body, Happened) and _tells_the_same(node, after):
            self._note_wake(after, now)
            return Outcome()
        return Outcome(tuple(self._update(after, now)))

    def _shortened(self, message: Heard) -> Heard:
        """Return what counts of a message; less where there are many nodes of the name."""
        if not self._roster.is_many(message.key[1]):
            return message
        short, left_out = brief(message)
        self.counters["alerts_left_out"] += left_out
        return short

    def tick(self, now: Moment) -> Outcome:
        """Return what time alone has changed; call it about once a second."""
        due = [key for key, at in self._wakes.items() if at <= now.mono_ns]
        told: list[Page] = []
        asks: list[Ask] = []
        for key in due:
            node, ask = self._mature(self._nodes[key], now)
            self._nodes[key] = node
            if ask is not None:
                asks.append(ask)
            told += self._update(node, now)
        return Outcome((*told, *self._own(now)), tuple(asks), tuple(self._checks(now)))

    def _checks(self, now: Moment) -> Iterator[tuple[str, Key]]:
        """Yield whom to look for: who has not been heard since the relay found its broker.

        At once for a node that went while that broker was away: it may have come to it since.
        """
        found, self._check_now = self._check_now, []
        yield from found
        for broker, at in list(self._check_at.items()):
            if now.mono_ns >= at:
                del self._check_at[broker]
                yield from (
                    (broker, k) for k, node in self._nodes.items() if broker in node.claimed
                )

    def untold(self, ended: Page, now: Moment) -> None:
        """Take in that an alert ended before anybody can have been told of it."""
        labels = dict(ended.labels)
        key = (labels.get("site", ""), labels.get("node", ""))
        node = self._nodes.get(key)
        if node is None or labels["alertname"] in {"NodeOffline", *digest.NAMES}:
            return
        words = dict(ended.annotations)
        known = digest.Unseen(
            labels["alertname"],
            labels.get("subject", ""),
            ended.starts_s,
            ended.ends_s or now.wall_s,
            words.get("summary", "")[:300],
        )
        after = replace(node, unseen=(*node.unseen, known)[-digest.MOST_NOTES :], unseen_since=now)
        self._nodes[key] = after
        self._note_wake(after, now)

    def known(self, dealt_until_s: float) -> Known:
        """Return what the next relay should know of all nodes."""
        tracks = {key: node.tracks for key, node in self._nodes.items() if node.tracks}
        gone = {k: node.offline.wall_s for k, node in self._nodes.items() if node.offline}
        return Known(tracks, {**self._gone, **gone}, dealt_until_s)

    def doubtful(self) -> frozenset[Labels]:
        """Return what fires though it may be over, as its nodes are on no broker that we reach.

        Another relay may see them, and have ended it; so it may reach a broker that we do not.
        """
        if all(since is not None for since in self._brokers.values()):
            return frozenset()
        unseen = {key for key, node in self._nodes.items() if not node.online}
        found = set(self._of_owner.get(US, frozenset())) - {self.alive}
        for owner, labels in self._of_owner.items():
            members = {owner} if owner in self._nodes else self._groups.faulty(owner)
            if members and members <= unseen:
                found |= labels
        return frozenset(found)

    def is_whole(self, now: Moment) -> bool:
        """Tell whether nothing else can be firing: every broker has told all that it keeps."""
        up = self._brokers.values()
        ripe_ns = int((self._settings.paging.offline_after_s + RIPE_S) * 1e9)
        return all(since is not None and now.mono_ns - since >= ripe_ns for since in up)

    def events_missing(self) -> int:
        """Return how many events could not be had, of all nodes."""
        return sum(node.events_missing for node in self._nodes.values())

    def offline(self) -> int:
        """Return how many nodes are offline, planned or not."""
        return sum(node.is_offline for node in self._nodes.values())

    # Brokers.

    def _broker(self, seen: BrokerSeen, now: Moment) -> Outcome:
        before = self._brokers.get(seen.broker)
        self._brokers[seen.broker] = now.mono_ns if seen.up else None
        if seen.up:
            self._seen.add(seen.broker)
            # By then every node has come back to a broker that was away.
            gone_ns = int(self._settings.paging.gone_s * 1e9)
            self._check_at[seen.broker] = now.mono_ns + gone_ns
            if self._all_up is None and self._seen >= set(self._brokers):
                self._all_up = now
        if (before is None) == seen.up or seen.broker not in self._broker_since:
            self._broker_since[seen.broker] = (now, seen.reason)
        elif not seen.up:
            since, _ = self._broker_since[seen.broker]
            self._broker_since[seen.broker] = (since, seen.reason)
        told: list[Page] = []
        for key, node in list(self._nodes.items()):
            after = node if seen.up else broker_lost(node, seen.broker, now)
            if after is not node or (seen.up and seen.broker in node.lost_on):
                self._nodes[key] = after
                told += self._update(after, now)
        return Outcome((*told, *self._own(now)))

    def _own(self, now: Moment) -> Iterator[Page]:
        """Yield what changes about the relay itself: always one alert, and those of brokers."""
        yield from self._replace(US, self._about_us(now), now)

    def _about_us(self, now: Moment) -> Iterator[Page]:
        yield brokers.alive(self._settings, self._began.wall_s)
        away = [
            brokers.Away(name, *self._broker_since[name])
            for name, since in self._brokers.items()
            if since is None
        ]
        if away:
            yield from brokers.pages(
                self._settings, away, len(self._brokers), self._nodes.values(), self._places, now
            )

    # Nodes.

    def _mature(self, node: Node, now: Moment) -> tuple[Node, Ask | None]:
        """Return the node after what time brings: digests, requests for what is missing."""
        node = self._digest(node, now)
        wish = None
        if node.online:
            tracks, wish, lost = gaps.ask(node.tracks, self._settings.name, now.mono_ns)
            node = replace(node, tracks=tracks, events_missing=node.events_missing + lost)
        if wish is None:
            return node, None
        self.counters["replays_asked"] += 1
        return node, Ask(node.key, wish.request, wish.session, wish.first, wish.last)

    def _digest(self, node: Node, now: Moment) -> Node:
        lasts_s = self._settings.paging.digest_s
        if node.digest is not None and now.mono_ns >= node.digest.until_ns:
            node = replace(node, digest=None)
        quiet = is_quiet(node, self.sky(), now)
        if node.back is not None and now.mono_ns >= node.back.due_ns:
            told = None if quiet else digest.isolation(node.back, node.unseen, lasts_s, now)
            self.counters["digests"] += told is not None
            return replace(
                node, back=None, unseen=(), unseen_since=None, digest=told or node.digest
            )
        since = node.unseen_since
        if since is None or node.back is not None or now.mono_ns < since.mono_ns + digest.QUIET_NS:
            return node
        told = None if quiet else digest.unseen_alerts(node.unseen, lasts_s, now)
        return replace(node, unseen=(), unseen_since=None, digest=node.digest or told)

    def _forget(self, key: Key, now: Moment) -> Iterator[Page]:
        """Let a node go that is gone for good; yield the end of all that fires for it."""
        if self._nodes.pop(key, None) is None:
            return
        self._roster.leave(key[1])
        self._wakes.pop(key, None)
        for group in self._groups.put(key, frozenset(), now):
            found = self._groups.page(group, self.sky())
            yield from self._replace(group, (found,) if found else (), now)
        yield from self._replace(key, (), now)
        self._places.forget(key)

    def _update(self, node: Node, now: Moment) -> Iterator[Page]:
        """Bring what fires for a node and its groups up to date; yield what is to be posted."""
        sky, place = self.sky(), self._places.of(node.key)
        for group in self._groups.put(node.key, shares(node, place, sky, now), now):
            found = self._groups.page(group, sky)
            # Before the node's own: what many have in common keeps the single ones quiet.
            yield from self._replace(group, (found,) if found else (), now)
        yield from self._replace(node.key, pages(node, place, sky, now), now)
        self._note_wake(node, now)

    def _note_wake(self, node: Node, now: Moment) -> None:
        times = [*wakes(node, self.sky(), now)]
        if (due := gaps.due_ns(node.tracks)) is not None and node.online:
            times.append(due)
        if times:
            self._wakes[node.key] = min(times)
        else:
            self._wakes.pop(node.key, None)

    def _replace(
        self, owner: tuple[str, ...], wanted: Iterable[Page], now: Moment
    ) -> Iterator[Page]:
        """Let exactly ``wanted`` fire for an owner; yield what begins and what ends.

        A text that changes is no news: it goes out with the next repost.
        """
        before = self._of_owner.get(owner, frozenset())
        after = {one.labels: one for one in wanted}
        for labels in sorted(before - after.keys()):
            ended = self._firing.pop(labels, None)
            if ended is not None:
                yield replace(ended, ends_s=now.wall_s)
        for labels, one in after.items():
            known = self._firing.get(labels)
            self._firing[labels] = one if known is None else replace(one, starts_s=known.starts_s)
            if known is None:
                yield one
        if after:
            self._of_owner[owner] = frozenset(after)
        else:
            self._of_owner.pop(owner, None)


def _tells_the_same(before: Node, after: Node) -> bool:
    """Tell whether an event changed nothing that is paged or waited for, but its own number."""
    return before.back is None and before.digest is after.digest
