"""What the viewer has chosen, and what a key makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkhold.fleet_view.picture import Key

MOST_FILTER = 60


class Mode(Enum):
    """What is shown."""

    LIST = "list"
    FILTER = "filter"
    DETAIL = "detail"


@dataclass(frozen=True, slots=True)
class Ui:
    """The choices. ``chosen`` is the marked node; None marks whatever is first.

    ``top`` is the first row that is drawn, ``scroll`` the first line of details.
    """

    mode: Mode = Mode.LIST
    chosen: Key | None = None
    top: int = 0
    scroll: int = 0
    wanted: str = ""
    before: str = ""
    by_name: bool = False
    troubled: bool = False


def index_of(ui: Ui, keys: Sequence[Key]) -> int:
    """Return which of ``keys`` is marked; the first when the marked node is not among them."""
    if ui.chosen is None:
        return 0
    try:
        return keys.index(ui.chosen)
    except ValueError:
        return 0


def settle(ui: Ui, keys: Sequence[Key], room: int) -> Ui:
    """Return the choices with ``top`` such that the marked row is among ``room`` drawn ones."""
    room = max(1, room)
    at = index_of(ui, keys)
    top = min(ui.top, at)
    top = max(top, at - room + 1)
    return replace(ui, top=max(0, min(top, max(0, len(keys) - room))))


def press(ui: Ui, key: str, keys: Sequence[Key], room: int) -> Ui | None:
    """Return the choices after a key; None: the viewer leaves. Unknown keys change nothing."""
    if ui.mode is Mode.FILTER:
        return _type(ui, key)
    if ui.mode is Mode.DETAIL:
        return _read(ui, key, room)
    if key == "q":
        return None
    if key == "enter" and keys:
        return replace(ui, mode=Mode.DETAIL, chosen=keys[index_of(ui, keys)], scroll=0)
    return _choose(ui, key) or _move(ui, key, keys, room)


def _choose(ui: Ui, key: str) -> Ui | None:
    """Return the choices after a key that changes which nodes are shown; None for another key."""
    changed: dict[str, dict[str, Any]] = {
        "/": {"mode": Mode.FILTER, "before": ui.wanted},
        "escape": {"wanted": "", "troubled": False},
        "a": {"troubled": not ui.troubled, "top": 0},
        "n": {"by_name": not ui.by_name, "top": 0},
    }
    return replace(ui, **changed[key]) if key in changed else None


def _move(ui: Ui, key: str, keys: Sequence[Key], room: int) -> Ui:
    if key in {"home", "g"}:
        return replace(ui, chosen=None, top=0)
    steps = _steps(room, len(keys))
    if key not in steps or not keys:
        return ui
    at = max(0, min(index_of(ui, keys) + steps[key], len(keys) - 1))
    return replace(ui, chosen=keys[at])


def _steps(room: int, most: int) -> dict[str, int]:
    page = max(1, room - 1)
    return {
        "up": -1,
        "k": -1,
        "down": 1,
        "j": 1,
        "page up": -page,
        "page down": page,
        " ": page,
        "end": most,
        "G": most,
    }


def _type(ui: Ui, key: str) -> Ui:
    if key == "enter":
        return replace(ui, mode=Mode.LIST, top=0)
    if key == "escape":
        return replace(ui, mode=Mode.LIST, wanted=ui.before)
    if key == "backspace":
        return replace(ui, wanted=ui.wanted[:-1], top=0)
    if len(key) == 1 and key.isprintable() and len(ui.wanted) < MOST_FILTER:
        return replace(ui, wanted=ui.wanted + key, top=0)
    return ui


def _read(ui: Ui, key: str, room: int) -> Ui | None:
    if key in {"escape", "q", "enter", "left"}:
        return replace(ui, mode=Mode.LIST)
    if key in {"home", "g"}:
        return replace(ui, scroll=0)
    steps = _steps(room, 1 << 16)
    return replace(ui, scroll=max(0, ui.scroll + steps.get(key, 0)))
