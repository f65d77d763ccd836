"""What is drawn: lines of styled spans for a terminal of some size, and never more than fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from linkhold.fleet_view.rows import Level, arranged, counts
from linkhold.fleet_view.ui import Mode, Ui, index_of, settle
from linkhold.fleet_view.words import ago, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from linkhold.fleet_view.line import BrokerNews
    from linkhold.fleet_view.picture import Key
    from linkhold.fleet_view.rows import Row

Span = tuple[str, str]
"""A text and its style, as rich names it."""
Line = tuple[Span, ...]

LEAST_NAME, MOST_NAME = 8, 32
LEAST_WHY = 20
MORE_COLUMNS = (("for", 7), ("power", 8), ("training", 9), ("uploads", 8), ("state", 8))
"""Beside name, network and why, as far as there is room: the most telling first."""
NARROW = 60
"""A terminal with fewer columns shows the counts without the program's name."""
CUT = "~ "
STYLES = {
    Level.OFFLINE: "bold red",
    Level.DOWN: "red",
    Level.POWER: "magenta",
    Level.WARNING: "yellow",
    Level.UNSURE: "cyan",
    Level.PLANNED: "dim",
    Level.OK: "green",
}
_WORD_STYLES = {
    "ok": "green",
    "go": "green",
    "online": "green",
    "degraded": "yellow",
    "newest": "yellow",
    "unseen": "cyan",
    "unknown": "cyan",
    "hold": "red",
    "down": "red",
    "battery": "magenta",
    "low": "bold magenta",
    "offline": "bold red",
    "stopped": "dim",
}
LIST_KEYS = "up/down move  Enter details  / filter  a troubled only  n by name  q quit"
FILTER_KEYS = "type words, !word for not  Enter keep  Esc drop"
DETAIL_KEYS = "up/down scroll  Esc back  Ctrl-C quit"


@dataclass(frozen=True, slots=True)
class Size:
    """A terminal, in cells."""

    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class Sight:
    """All that a screen shows: the rows of the fleet, the brokers, and what was left out.

    ``brokers`` has what was told of each last, None before the first word. ``why`` is a sentence
    about nodes that were left out.
    """

    rows: Sequence[Row]
    brokers: Mapping[str, BrokerNews | None]
    now_s: float
    left_out: int = 0
    why: str = ""


def style_of(word: str) -> str:
    """Return the style of a word for a state, empty for none."""
    return _WORD_STYLES.get(word, "")


def draw(
    sight: Sight, ui: Ui, size: Size, details: Sequence[Line] = ()
) -> tuple[list[Line], Ui, list[Key], int]:
    """Return ``size.rows`` lines, the settled choices, the keys in order, and rows of room."""
    shown = arranged(sight.rows, ui.wanted, by_name=ui.by_name, troubled=ui.troubled)
    keys = [row.key for row in shown]
    head = list(_head(sight, ui, len(shown), size))
    foot = [_foot(ui)] if size.rows > len(head) + 2 else []
    room = max(1, size.rows - len(head) - len(foot))
    if ui.mode is Mode.DETAIL:
        ui = replace(ui, scroll=min(ui.scroll, max(0, len(details) - room)))
        body = list(details[ui.scroll : ui.scroll + room])
    else:
        columns = columns_of(sight.rows, size.columns - 1)
        if room > 2:  # noqa: PLR2004 -- rows
            head.append(tuple((cell(name.upper(), width), "bold") for name, width in columns))
            room -= 1
        ui = settle(ui, keys, room)
        body = _list(sight, ui, shown, columns, room)
    body += [()] * (room - len(body))
    lines = [*head, *body, *foot][: size.rows]
    # The last column stays free: what erases the rest of a line would take its last letter.
    return [fit(line, size.columns - 1) for line in lines], ui, keys, room


def _head(sight: Sight, ui: Ui, shown: int, size: Size) -> Iterable[Line]:
    title: list[Span] = [("linkhold top  ", "bold")] if size.columns >= NARROW else []
    title.append((_nodes(len(sight.rows)), ""))
    for position, (level, count) in enumerate(counts(sight.rows)):
        title.append((": " if position == 0 else ", ", ""))
        title.append((f"{count} {level.word}", STYLES[level]))
    if sight.left_out:
        title.append((f"; {sight.left_out} messages of more nodes left out", "red"))
    yield tuple(title)
    if sight.why:
        yield ((sight.why, "red"),)
    lost = [news for news in sight.brokers.values() if news is None or not news.up or news.reason]
    if size.rows > 6 or lost:  # noqa: PLR2004 -- rows; a smaller screen is for nodes
        yield tuple(_brokers(sight))
    if ui.mode is Mode.FILTER:
        yield (("filter: ", "bold"), (ui.wanted, ""), ("_", "reverse"))
    elif ui.wanted or ui.troubled:
        what = " ".join(filter(None, (ui.wanted, "(troubled only)" if ui.troubled else "")))
        yield ((f"{shown} of {len(sight.rows)} match: {what}", "bold"), ("  Esc shows all", "dim"))


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _brokers(sight: Sight) -> Iterable[Span]:
    yield ("brokers: " if len(sight.brokers) > 1 else "broker: ", "")
    for position, (place, news) in enumerate(sight.brokers.items()):
        if position:
            yield (", ", "")
        yield (f"{place} ", "")
        if news is None:
            yield ("connecting", "cyan")
        elif news.up:
            yield ("connected", "green") if not news.reason else (news.reason, "red")
        else:
            yield (f"LOST: {news.reason}", "bold red")


def _foot(ui: Ui) -> Line:
    text = {Mode.LIST: LIST_KEYS, Mode.FILTER: FILTER_KEYS, Mode.DETAIL: DETAIL_KEYS}[ui.mode]
    return ((text, "dim"),)


def _list(
    sight: Sight, ui: Ui, shown: Sequence[Row], columns: Sequence[tuple[str, int]], room: int
) -> list[Line]:
    if not shown:
        return [(("no node matches" if sight.rows else "no node has been heard of yet", ""),)]
    at = index_of(ui, [row.key for row in shown])
    lines = []
    for position in range(ui.top, min(len(shown), ui.top + room)):
        line = row_line(shown[position], columns, sight.now_s)
        lines.append(_marked(line) if position == at else line)
    return lines


def _marked(line: Line) -> Line:
    return tuple((text, f"{style} reverse".strip()) for text, style in line)


def columns_of(rows: Sequence[Row], width: int) -> list[tuple[str, int]]:
    """Return the columns that fit into ``width``: names and cells, the last takes the rest."""
    several = len({row.key[0] for row in rows}) > 1
    names = (len(_name(row, several=several)) for row in rows)
    most = min(MOST_NAME, max(LEAST_NAME, width // 3))
    name = max(LEAST_NAME, min(most, max(names, default=LEAST_NAME)))
    columns = [("site/node" if several else "node", name + 1), ("network", 9)]
    left = width - sum(cells for _, cells in columns)
    for column in MORE_COLUMNS:
        if left - column[1] < LEAST_WHY:  # long names must not cost the reason
            break
        columns.append(column)
        left -= column[1]
    return [*columns, ("why", max(0, left))]


def _name(row: Row, *, several: bool) -> str:
    return printable("/".join(row.key) if several else row.key[1], 2 * MOST_NAME)


def row_line(row: Row, columns: Sequence[tuple[str, int]], now_s: float) -> Line:
    """Return a row as one line. ``for`` is how long it has been so, ``state`` the state's age."""
    there = row.presence == "online"
    network = row.network if there else row.presence
    since = ago(now_s - row.since_s) if row.since_s else "-"
    age = ago(now_s - row.at_s) if row.at_s else "-"
    if row.at_s and not row.sure_of_time:
        age = "clock?"
    cells: dict[str, Span] = {
        "node": (_name(row, several=False), STYLES[row.level] if row.level else ""),
        "site/node": (_name(row, several=True), STYLES[row.level] if row.level else ""),
        "network": (network, style_of(network)),
        "for": (since, ""),
        "power": (row.power, style_of(row.power)),
        "training": (row.training, style_of(row.training)),
        "uploads": (row.uploads, style_of(row.uploads)),
        "state": (age, "dim"),
        "why": (row.why, ""),
    }
    return tuple((cell(cells[name][0], width), cells[name][1]) for name, width in columns)


def cell(text: str, width: int) -> str:
    """Return ``text`` in exactly ``width`` cells; one that is too long ends with ``~``."""
    if width <= 0:
        return ""
    if cell_len(text) < width or width <= len(CUT):
        return set_cell_size(text, width)
    return set_cell_size(text, width - len(CUT)) + CUT


def fit(line: Line, columns: int) -> Line:
    """Return a line that is no wider than the terminal."""
    spans, left = [], columns
    for text, style in line:
        if left <= 0:
            break
        wide = cell_len(text)
        spans.append((text if wide <= left else set_cell_size(text, left), style))
        left -= min(wide, left)
    return tuple(spans)
