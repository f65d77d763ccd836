"""Nodes as rows for people: the worst first, filtered by words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from linkhold.fleet_view.words import ago, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkhold.fleet_view.picture import Fleet, Key, NodeView
    from linkhold.fleet_view.presence import Present


class Level(IntEnum):
    """How much a node needs somebody, the least first."""

    OK = 0
    PLANNED = 1
    UNSURE = 2
    WARNING = 3
    POWER = 4
    DOWN = 5
    OFFLINE = 6

    @property
    def word(self) -> str:
        """The level in a count: ``3 offline, 5 down``."""
        return _WORDS[self]


_WORDS = {
    Level.OK: "ok",
    Level.PLANNED: "planned",
    Level.UNSURE: "unsure",
    Level.WARNING: "warning",
    Level.POWER: "losing power",
    Level.DOWN: "down",
    Level.OFFLINE: "offline",
}
_DARK = frozenset({"battery", "low"})


@dataclass(frozen=True, slots=True)
class Row:
    """One node in a list. Times are wall clocks in seconds, 0 for unknown.

    ``since_s`` is when it came to be as it is, ``at_s`` when its state was told; ``text`` is what
    a filter looks at.
    """

    key: Key
    level: Level
    presence: str
    network: str
    power: str
    training: str
    uploads: str
    since_s: float
    at_s: float
    sure_of_time: bool
    why: str
    text: str

    @property
    def order(self) -> tuple[int, float, Key]:
        """Sort key of the worst first; of equals the newest trouble, then the name."""
        return (-self.level, -self.since_s if self.level > Level.PLANNED else 0.0, self.key)


def row_of(node: NodeView, now_s: float) -> Row:
    """Return the row of a node; ``now_s`` is our wall clock."""
    present = node.present
    worked_on = present is not None and now_s < present.work_until_s
    level = Level.PLANNED if worked_on else _level(node)
    words = ("-", "-", "-", "-")
    if present is not None:
        words = (present.network, present.power, present.training, present.uploads)
    why = _why(node, present)
    if worked_on and present is not None:
        left = ago(present.work_until_s - now_s)
        why = f"planned work, {left} left: {present.work}" + (f"; {why}" if why else "")
    site, name = (printable(part, 64) for part in node.key)
    text = " ".join((f"{site}/{name}", node.presence, level.word, *words, why)).lower()
    return Row(
        node.key,
        level,
        node.presence,
        *words,
        since_s=_since_s(node),
        at_s=present.at_s if present else 0.0,
        sure_of_time=present is None or present.clock_synced,
        why=why,
        text=text,
    )


def _since_s(node: NodeView) -> float:
    """Return since when a node is as it is; a will that is retained does not tell when it was."""
    if node.presence in {"offline", "stopped"}:
        return node.gone_s or 0.0
    present = node.present
    if present is None:
        return 0.0
    return max(present.since_s, *(alert.since_s for alert in present.alerts), 0.0)


def _level(node: NodeView) -> Level:
    if node.presence in {"offline", "stopped"}:
        return Level.OFFLINE if node.presence == "offline" else Level.PLANNED
    present = node.present
    if present is None:
        return Level.UNSURE
    dark = present.power in _DARK or bool(present.stop)
    level = Level.OK
    if node.presence == "unseen" or present.network == "unknown":
        level = Level.UNSURE
    if present.alerts or present.network == "degraded" or _is_held(present):
        level = Level.WARNING
    if dark:
        level = Level.POWER
    if present.network == "down" or (present.critical and not dark):
        level = Level.DOWN
    return level


def _is_held(present: Present) -> bool:
    return present.training != "go" or present.uploads != "go" or bool(present.checkpoint)


def _why(node: NodeView, present: Present | None) -> str:
    if node.presence == "stopped":
        return node.planned
    if present is None:
        return node.problem or "no state has come from it"
    critical = [alert.text for alert in present.alerts if alert.severity == "critical"]
    others = [alert.text for alert in present.alerts if alert.severity != "critical"]
    texts = [*present.causes]
    for text in (*critical, *others, *present.notices):
        if not any(known in text for known in texts):  # an alert tells its causes once more
            texts.append(text)
    if present.stop:
        texts.append(f"stop: {present.stop}")
    elif present.checkpoint:
        texts.append(f"checkpoint: {present.checkpoint}")
    told = "; ".join(texts)
    if node.presence != "offline":
        return told
    return f"no word of it; before: {told}" if told else "no word of it"


class Rows:
    """The rows of a fleet; a node that did not change keeps its row, but for planned work's end."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[NodeView, Row]] = {}

    def of(self, fleet: Fleet, now_s: float) -> list[Row]:
        """Return a row for each node, in no order."""
        known, self._known = self._known, {}
        for key, node in fleet.nodes.items():
            pair = known.get(key)
            timed = node.present is not None and node.present.work_until_s
            if pair is None or pair[0] is not node or timed:
                pair = (node, row_of(node, now_s))
            self._known[key] = pair
        return [row for _, row in self._known.values()]


def arranged(
    rows: Iterable[Row], wanted: str = "", *, by_name: bool = False, troubled: bool = False
) -> list[Row]:
    """Return the rows that match ``wanted``, the worst first or by name.

    Every word of ``wanted`` must occur in the row; one that begins with ``!`` must not.
    """
    words = wanted.lower().split()
    kept = [row for row in rows if (row.level or not troubled) and matches(row, words)]
    return sorted(kept, key=(lambda row: row.key) if by_name else (lambda row: row.order))


def matches(row: Row, words: Sequence[str]) -> bool:
    """Tell whether a row has all of ``words``, and none of those behind a ``!``."""
    return all(
        word[1:] not in row.text if word.startswith("!") and word[1:] else word in row.text
        for word in words
    )


def counts(rows: Iterable[Row]) -> list[tuple[Level, int]]:
    """Return how many nodes are how, the worst first; what does not occur is left out."""
    found = Counter(row.level for row in rows)
    return sorted(found.items(), reverse=True)
