"""What is said while a rank waits at an agreement for the others: waiting, not hung."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from linkhold.client.decision import why
from linkhold.model import Network

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.voice import Voice
    from linkhold.wire import StateView

PATIENCE_S = 10.0
"""Ranks are apart by less than this when nothing is wrong, saves on rank 0 apart."""


class Waiting:
    """Tells once of each long wait, and of its end."""

    def __init__(self, voice: Voice, now_s: Callable[[], float] = time.monotonic) -> None:
        self._voice = voice
        self._now_s = now_s
        self._since_s: float | None = None
        self._told = self._told_apart = False

    def go_on(self, step: int, view: StateView | None) -> None:
        """Count one more moment of waiting at ``step``; ``view`` is this node's state."""
        now_s = self._now_s()
        if self._since_s is None:
            self._since_s = now_s
        if self._told or now_s - self._since_s < PATIENCE_S:
            return
        self._told = True
        if view is not None and view.network is Network.DOWN:
            text = f"waiting at step {step} for the network: {why(view)}"
        else:
            text = f"waiting at step {step} for other ranks to get there"
        self._voice.warning(text)

    def over(self, apart: tuple[int, int] | None = None) -> None:
        """The others have come; ``apart`` are the steps where they are not at the same one."""
        since_s, told = self._since_s, self._told
        self._since_s, self._told = None, False
        if told and since_s is not None:
            self._voice.info(f"all ranks are there, after {self._now_s() - since_s:.1f} s")
        if apart is not None and not self._told_apart:
            self._told_apart = True
            self._voice.warning(
                f"one rank is at step {apart[0]}, another at step {apart[1]}: holds, checkpoints "
                "and stops come at different steps; every rank must call hold.step() for each of "
                "its steps, with the same number"
            )
