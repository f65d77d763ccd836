"""What a job asks of its Hold, checked when it is made and never changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

HOLD_CAUSES = ("network",)
"""The causes for which a job can ask to be held (``hold_on``)."""
DESTINATIONS = ("local", "remote")


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of :meth:`linkhold.client.Hold.connect`; see there.

    Raises :class:`TypeError` or :class:`ValueError` for the first argument that is wrong.
    """

    run_dir: Path | None = None
    hold_on: tuple[str, ...] = ()
    checkpoint_every_steps: int | None = None
    checkpoint_every_s: float | None = None
    checkpoint_to: str = "local"
    max_hold_s: float = 900.0
    upload_spread_s: float = 5.0
    wait_s: float = 1.0

    def __post_init__(self) -> None:
        """Check every field."""
        _check_causes(self.hold_on)
        steps = self.checkpoint_every_steps
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int)):
            raise TypeError(f"checkpoint_every_steps: {steps!r} is no whole number of steps")
        if steps is not None and steps < 1:
            raise ValueError(f"checkpoint_every_steps: {steps} is less than 1")
        if self.checkpoint_every_s is not None:
            _check_seconds("checkpoint_every_s", self.checkpoint_every_s, above_zero=True)
        if self.checkpoint_to not in DESTINATIONS:
            raise ValueError(
                f"checkpoint_to: {self.checkpoint_to!r} is not one of {', '.join(DESTINATIONS)}"
            )
        _check_seconds("max_hold_s", self.max_hold_s, above_zero=True)
        _check_seconds("upload_spread_s", self.upload_spread_s)
        _check_seconds("wait_s", self.wait_s)


def causes(value: Iterable[str]) -> tuple[str, ...]:
    """Return ``hold_on`` as a tuple; raises :class:`TypeError` for a bare text."""
    if isinstance(value, str):
        raise TypeError(f'hold_on: write ("{value}",) instead of "{value}"')
    return tuple(value)


def absolute(folder: str | os.PathLike[str] | None) -> Path | None:
    """Return a given run folder as it will still be right after a change of directory."""
    return None if folder is None else Path(folder).expanduser().absolute()


def _check_causes(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in HOLD_CAUSES:
            raise ValueError(f"hold_on: {name!r} is not one of {', '.join(HOLD_CAUSES)}")


def _check_seconds(name: str, value: Any, *, above_zero: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: {value!r} is no number of seconds")
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        raise ValueError(f"{name}: {value!r} is out of range")
