"""The service's own venv: pinned dependencies with hashes, and linkhold from its wheel."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.install.files import CURRENT, HOME, lock_text
from linkhold.install.steps import Step, below, call
from linkhold.model import HostError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PIP_S = 900.0
COMPLETE = "complete"
"""The file in a venv that says that all of it is there."""


@dataclass(frozen=True, slots=True)
class Venv:
    """One venv: its interpreter, the wheel in it, and its folder, which both give its name."""

    root: Path
    python: str
    wheel: Path
    folder: str

    def make(self) -> Step:
        """Return the step that makes it."""
        return Step(f"make {self.folder} with {self.python}", self._complete, self._make)

    @property
    def _place(self) -> Path:
        return below(self.root, self.folder)

    def _complete(self) -> bool:
        return (self._place / COMPLETE).exists()

    def _make(self) -> None:
        place = self._place
        place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        call([self.python, "-m", "venv", "--clear", str(place)])
        with tempfile.NamedTemporaryFile(suffix=".txt") as lock:
            lock.write(lock_text())
            lock.flush()
            self._pip("--require-hashes", "--requirement", lock.name)
        self._pip("--no-index", str(self.wheel))
        call(self.linkhold("--version"))
        call([f"{place}/bin/python", "-I", "-m", "pip", "uninstall", "--quiet", "--yes", "pip"])
        # The mark must not outlive a loss of power that the files before it do not.
        call(["sync", "--file-system", str(place)], PIP_S)
        (place / COMPLETE).touch()

    def _pip(self, *arguments: str) -> None:
        options = ("--quiet", "--no-deps", "--only-binary", ":all:", "--no-input")
        pip = [f"{self._place}/bin/python", "-I", "-m", "pip", "install"]
        call([*pip, *options, *arguments], PIP_S)

    def linkhold(self, *arguments: str) -> Sequence[str]:
        """Return the command that runs the linkhold in it."""
        return [f"{self._place}/bin/python", "-I", "-m", "linkhold", *arguments]

    def in_use(self) -> bool:
        """Tell whether the services run from it."""
        current = below(self.root, CURRENT)
        return current.is_symlink() and current.readlink().name == self._place.name


def plan_venv(root: Path, python: str, wheel: Path, version: str) -> Venv:
    """Return the venv for a wheel: the same wheel and pins give the same folder, others another.

    Raises :class:`HostError` when the wheel cannot be read.
    """
    try:
        digest = hashlib.sha256(wheel.read_bytes() + lock_text() + python.encode())
    except OSError as error:
        raise HostError(f"wheel {wheel}: {error.strerror}") from error
    return Venv(root, python, wheel.absolute(), f"{HOME}/{version}-{digest.hexdigest()[:10]}")
