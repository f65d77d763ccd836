"""``linkhold top`` at work: the picture of the fleet, drawn on a terminal, and keys answered."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.fleet_view.details import details
from linkhold.fleet_view.screen import Sight, draw
from linkhold.fleet_view.ui import Mode, Ui, press

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkhold.fleet_view import screen
    from linkhold.fleet_view.picture import Key
    from linkhold.fleet_view.terminal import Terminal
    from linkhold.fleet_view.watch import Watch

REDRAW_S = 0.5
"""What comes from brokers is drawn this often at most; a key is answered at once."""
AGES_S = 20.0
"""Ages grow also while nothing happens."""


def run(watch: Watch, terminal: Terminal, wanted: str = "") -> None:
    """Show the fleet until the viewer leaves or a signal ends it; ``wanted`` is a first filter."""
    View(watch, terminal, Ui(wanted=wanted)).run()


class View:
    """One viewer: choices, and what was drawn when."""

    def __init__(self, watch: Watch, terminal: Terminal, ui: Ui) -> None:
        self._watch = watch
        self._terminal = terminal
        self._ui = ui
        self._keys: Sequence[Key] = ()
        self._room = 1
        self._drawn_s = 0.0
        self._stale = True

    def run(self) -> None:
        """Draw and answer keys until the end."""
        while not self._terminal.ended:
            now_s = time.monotonic()
            if self._stale and now_s - self._drawn_s >= REDRAW_S:
                self._draw()
            due_s = REDRAW_S if self._stale else AGES_S
            keys = self._terminal.wait(
                max(0.0, self._drawn_s + due_s - time.monotonic()), self._watch.fileno()
            )
            self._stale |= self._watch.take() or time.monotonic() - self._drawn_s >= AGES_S
            if keys and not self._answer(keys):
                return

    def _answer(self, keys: Iterable[str]) -> bool:
        """Take keys in and draw at once; False when the viewer leaves."""
        for key in keys:
            if key == "redraw":
                self._terminal.redraw()
            after = press(self._ui, key, self._keys, self._room)
            if after is None:
                return False
            self._ui = after
        self._draw()
        return True

    def _draw(self) -> None:
        watch, now_s = self._watch, time.time()
        why = "".join(watch.why_left_out[:1])
        sight = Sight(watch.rows(now_s), watch.brokers, now_s, watch.left_out, why)
        lines, self._ui, self._keys, self._room = draw(
            sight, self._ui, self._terminal.size, self._details(now_s)
        )
        self._terminal.show(lines)
        self._drawn_s, self._stale = time.monotonic(), False

    def _details(self, now_s: float) -> list[screen.Line]:
        if self._ui.mode is not Mode.DETAIL or self._ui.chosen is None:
            return []
        node = self._watch.fleet.nodes.get(self._ui.chosen)
        if node is None:
            self._ui = replace(self._ui, mode=Mode.LIST)
            return []
        return details(node, now_s)
