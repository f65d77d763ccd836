"""A change of the host as steps, each of which knows whether it is done already."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.children import run
from linkhold.model import HostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from linkhold.install.files import HostFile

COMMAND_S = 120.0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do; ``done`` looks, ``do`` does it or raises HostError or OSError."""

    text: str
    done: Callable[[], bool]
    do: Callable[[], None]


def perform(steps: Iterable[Step], tell: Callable[[str], None], *, dry_run: bool) -> int:
    """Do what is not done, in order, telling each step; return how many there were to do."""
    count = 0
    for step in steps:
        if step.done():
            continue
        count += 1
        tell(f"would {step.text}" if dry_run else step.text)
        if not dry_run:
            step.do()
    return count


def call(argv: Sequence[str], timeout_s: float = COMMAND_S) -> None:
    """Run a program of the host; raises :class:`HostError` with its last line unless it gives 0."""
    done = run(argv, timeout_s=timeout_s)
    if done.code:
        raise HostError(f"{' '.join(argv)}: {done.last_line or f'ended with {done.code}'}")


def succeeds(argv: Sequence[str], timeout_s: float = COMMAND_S) -> bool:
    """Tell whether a program of the host gives 0; what it says is not told."""
    return run(argv, timeout_s=timeout_s).code == 0


def write(root: Path, file: HostFile) -> Step:
    """Return the step that gives a file its content and mode, whole on the disk at any moment."""
    path = below(root, file.path)

    def done() -> bool:
        with contextlib.suppress(OSError):
            same_mode = path.lstat().st_mode & 0o7777 == file.mode
            return same_mode and not path.is_symlink() and path.read_bytes() == file.content
        return False

    def do() -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        with new.open("wb") as written:
            written.write(file.content)
            written.flush()
            os.fchmod(written.fileno(), file.mode)
            os.fsync(written.fileno())  # else a loss of power leaves an empty unit: a masked one
        new.replace(path)

    return Step(f"write {file.path}", done, do)


def remove(root: Path, name: str) -> Step:
    """Return the step that removes a file or a folder with all in it."""
    path = below(root, name)

    def do() -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    return Step(f"remove {name}", lambda: not os.path.lexists(path), do)


def point(root: Path, link: str, target: str) -> Step:
    """Return the step that lets a symbolic link lead to ``target``, at once and not in two."""
    path = below(root, link)

    def do() -> None:
        new = path.with_name(f".{path.name}.new")
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        new.replace(path)

    def done() -> bool:
        return path.is_symlink() and str(path.readlink()) == target

    return Step(f"let {link} lead to {target}", done, do)


def below(root: Path, name: str) -> Path:
    """Return an absolute path of the host below ``root``."""
    return root / name.lstrip("/")
