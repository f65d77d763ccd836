"""One parser of outside bytes: how it is called, with what, and what it may answer."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class Vague(AssertionError):
    """A refusal tells a person nothing: it is empty, or the words of Python."""


PYTHON_WORDS = ("Traceback (most recent", "object is not", "unpack", "NoneType' has")


@dataclass(frozen=True)
class Target:
    """A parser, named as a person names what it reads.

    ``reads`` are the modules below ``linkhold`` whose reading it exercises. ``refusals`` are the
    errors that are documented. ``samples`` returns valid inputs, from which broken ones are made;
    ``json`` says that they are JSON, whose values are then exchanged too.
    """

    name: str
    reads: tuple[str, ...]
    call: Callable[[bytes], object]
    samples: Callable[[], Sequence[bytes]]
    refusals: tuple[type[BaseException], ...] = ()
    json: bool = False


@dataclass(frozen=True)
class FileTarget:
    """A parser of a file: ``load`` reads it as ``name`` in a folder.

    ``most_bytes`` is what may be read of it at most. ``kept`` says that a damaged file is an
    owner's only copy: it must stay, there or aside.
    """

    title: str
    reads: tuple[str, ...]
    file: str
    load: Callable[[Path], object]
    samples: Callable[[], Sequence[bytes]]
    most_bytes: int
    refusals: tuple[type[BaseException], ...] = ()
    json: bool = False
    kept: bool = False

    def target(self, folder: Path) -> Target:
        """Return the same with the bytes written to the file first."""

        def call(data: bytes) -> None:
            path = folder / self.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            self.load(folder)
            if self.kept:
                copies = [one for one in folder.iterdir() if one.name.startswith(self.file)]
                assert copies, f"{self.file} is gone"

        return Target(self.title, self.reads, call, self.samples, self.refusals, self.json)


def check(target: Target, data: bytes) -> bool:
    """Call a parser; tell whether it took the input.

    Raises whatever it raises beside its documented errors, and :class:`Vague` for one of ours
    without words for a person.
    """
    try:
        target.call(data)
    except target.refusals as error:
        if isinstance(error, LinkholdError):
            _check_words(str(error))
        return False
    return True


def _check_words(text: str) -> None:
    if not text.strip() or any(word in text for word in PYTHON_WORDS):
        raise Vague(f"a refusal without meaning: {text!r}")


def taken(target: Target) -> list[bool]:
    """Return which samples a parser takes: one that takes none is tried with nothing real."""
    found = []
    for sample in target.samples():
        with contextlib.suppress(Exception):
            found.append(check(target, sample))
    return found
