"""What a job asks of its Hold, checked when it is made and never changed."""

from __future__ import annotations

import math
import operator
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from linkhold.model.cover import PROBES, SECONDS_MOST, Exclusions, plain, timers_for

if TYPE_CHECKING:
    from linkhold.model.keepalive import Timers

T = TypeVar("T")

HOLD_CAUSES = ("network",)
"""The causes for which a job can ask to be held (``hold_on``)."""
DESTINATIONS = ("local", "remote")
AGREEMENTS = ("torch",)
SPOOL_BYTES, SPOOL_COUNT, SPOOL_FLOOR_BYTES = 64 << 30, 64, 2 << 30
MOST_BYTES = 1 << 60


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
    cover: bool = False
    cover_exclude_ports: tuple[int, ...] = ()
    cover_exclude_peers: tuple[str, ...] = ()
    wait_s: float = 1.0
    agree: str | None = None
    spool: Path | None = None
    spool_max_bytes: int = SPOOL_BYTES
    spool_max_count: int = SPOOL_COUNT
    spool_free_floor_bytes: int = SPOOL_FLOOR_BYTES

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
        if self.agree is not None and self.agree not in AGREEMENTS:
            raise ValueError(f"agree: {self.agree!r} is not one of None, {', '.join(AGREEMENTS)}")
        for port in self.cover_exclude_ports:
            _check_whole("cover_exclude_ports", port, 65535)
        _check_whole("spool_max_bytes", self.spool_max_bytes, MOST_BYTES)
        _check_whole("spool_max_count", self.spool_max_count, 10_000)
        _check_whole("spool_free_floor_bytes", self.spool_free_floor_bytes, MOST_BYTES, least=0)

    @property
    def exclusions(self) -> Exclusions:
        """The sockets that get no keepalive from us."""
        ports = frozenset(self.cover_exclude_ports)
        return Exclusions(ports, frozenset(map(plain, self.cover_exclude_peers)))


def several(name: str, value: Iterable[T]) -> tuple[T, ...]:
    """Return the values of an argument that takes several.

    Raises :class:`TypeError` for a single one, of which there would be letters.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: write [{value!r}] instead of {value!r}")
    return tuple(value)


def addresses(value: Iterable[str]) -> tuple[str, ...]:
    """Return peers as the kernel shows their addresses.

    Raises :class:`TypeError` for a bare text, :class:`ValueError` for what is no address.
    """
    return tuple(_address(peer) for peer in several("cover_exclude_peers", value))


def _address(peer: str) -> str:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, peer.partition("%")[0]))
        except (OSError, ValueError, AttributeError):
            continue
    raise ValueError(f"cover_exclude_peers: {peer!r} is no IP address")


def given_timers(time_s: int | None, interval_s: int | None, probes: int | None) -> Timers | None:
    """Return the values that a program gave, the others as :func:`timers_for`; None for none.

    Raises :class:`TypeError` or :class:`ValueError` for one that a socket does not take.
    """
    given = {"time_s": time_s, "interval_s": interval_s, "probes": probes}
    values = {name: value for name, value in given.items() if value is not None}
    for name, value in values.items():
        _check_whole(name, value, PROBES if name == "probes" else SECONDS_MOST)
    return replace(timers_for(time_s), **values) if values else None


def absolute(name: str, folder: str | os.PathLike[str] | None) -> Path | None:
    """Return a given folder as it will still be right after a change of directory.

    Raises :class:`TypeError` for what is no path, :class:`ValueError` for one that names nothing:
    an empty text would be the working folder.
    """
    if folder is None:
        return None
    if not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"{name}: {folder!r} is no path")
    if not os.fspath(folder):
        raise ValueError(f"{name}: {folder!r} names no folder; write None for none")
    try:
        return Path(folder).expanduser().absolute()
    except RuntimeError as error:  # ~somebody who is not here
        raise ValueError(f"{name}: {folder!r}: {error}") from None


def step_number(call: str, step: Any) -> int:
    """Return the number of a step as Python's own; numbers of numpy and torch are taken too.

    Raises :class:`TypeError` for what is none, before it is compared with others.
    """
    try:
        return operator.index(step)
    except TypeError:
        raise TypeError(
            f"{call}: {step!r} is no step number; give the global step, a whole number"
        ) from None


def _check_causes(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in HOLD_CAUSES:
            raise ValueError(f"hold_on: {name!r} is not one of {', '.join(HOLD_CAUSES)}")


def _check_whole(name: str, value: Any, most: int, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {value!r} is no whole number")
    if not least <= value <= most:
        raise ValueError(f"{name}: {value} is not {least} to {most}")


def _check_seconds(name: str, value: Any, *, above_zero: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: {value!r} is no number of seconds")
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        raise ValueError(f"{name}: {value!r} is out of range")
