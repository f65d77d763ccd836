"""What the client tells the person who reads the training log: few lines, in plain words."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from linkhold.client import decision

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.client.decision import Guidance
    from linkhold.model import StopRequest
    from linkhold.wire import StateView

PRESENCE_PERIOD_S = 60.0
PRESENCE_BURST = 2
"""An agent that comes and goes is worth two lines a minute."""


class Voice:
    """Says things to a logger; never raises into training because of a broken handler."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("linkhold")
        self._since_ns = 0
        self._said = 0

    @property
    def logger_name(self) -> str:
        """Name under which a child process finds the logger again."""
        return self._logger.name

    def info(self, text: str) -> None:
        """Say what is good to know."""
        self._say(logging.INFO, text)

    def warning(self, text: str) -> None:
        """Say what a person may have to act on."""
        self._say(logging.WARNING, text)

    def presence(self, *, present: bool, text: str, now_ns: int) -> None:
        """Say that the agent came or went, unless it does so all the time."""
        if self._said == 0 or now_ns - self._since_ns >= PRESENCE_PERIOD_S * 1e9:
            self._since_ns, self._said = now_ns, 0
        self._said += 1
        if self._said <= PRESENCE_BURST:
            self._say(logging.INFO if present else logging.WARNING, text)

    def _say(self, level: int, text: str) -> None:
        self._logger.log(level, "%s", text)


def many(count: int, what: str) -> str:
    """Return a count with its noun, ``1 call`` or ``2 calls``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def checked(logger: logging.Logger | None) -> logging.Logger | None:
    """Return what is a logger; raises :class:`TypeError` for anything else."""
    if logger is None or callable(getattr(logger, "log", None)):
        return logger
    raise TypeError(f'logger: {logger!r} is no logger; write logging.getLogger("train")')


class Memo(Voice):
    """Keeps what was said, for tests of training code."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def _say(self, level: int, text: str) -> None:
        del level
        self._lines.append(text)


def presence(guidance: Guidance, view: StateView | None, looked_in: Path) -> str:
    """Say whether an agent is there: ``view`` is its last state, None if there never was one."""
    if guidance.present and view is not None:
        return f"linkhold agent of node {view.node} found"
    if view is None:
        return f"no linkhold agent in {looked_in}: nothing is held until one appears"
    latched = [word for word in ("checkpoint", "stop") if getattr(guidance, word) is not None]
    kept = f"; it asked for a {' and a '.join(latched)}, which stays" if latched else ""
    return f"the linkhold agent is silent: training and uploads go on{kept}"


def asked_to_stop(stop: StopRequest, now_ns: int) -> str:
    """Say that the run is to end, why and within which time."""
    left_s = decision.seconds_left(stop, now_ns)
    within = "" if left_s is None else f" within {left_s:.0f} s"
    return f"asked to stop{within}: {stop.reason}"
