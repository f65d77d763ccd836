"""What a scenario is and what comes back from one; known to host and guest alike."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from support.lab.box import Box

LOG_LINES_SHOWN = 25
DEFAULT_LIMIT_S = 30.0


@dataclass(frozen=True)
class Scenario:
    """A function for the guest, named by the file it stands in and its name there."""

    function: Callable[..., Any]
    modules: tuple[str, ...]
    timeout_s: float

    @property
    def file(self) -> str:
        """Return the absolute path of the file that defines the function."""
        return self.function.__code__.co_filename

    @property
    def name(self) -> str:
        """Return the function's name in its module."""
        return self.function.__qualname__

    def __call__(self, box: Box, **params: Any) -> Any:
        """Run as a plain function, so that one scenario can use another inside the guest."""
        return self.function(box, **params)


def scenario(
    *, modules: tuple[str, ...] | list[str] = (), timeout_s: float = DEFAULT_LIMIT_S
) -> Callable[[Callable[..., Any]], Scenario]:
    """Mark a module-level function ``(box, **params) -> JSON`` as a scenario.

    ``modules`` are loaded before it starts; bonding, veth and bridge always are, and most others
    the kernel loads by itself. Name those of which nothing is auto-loaded (``netconsole``).
    """

    def mark(function: Callable[..., Any]) -> Scenario:
        if "." in function.__qualname__:
            raise ValueError(f"{function.__qualname__}: the guest finds module-level names only")
        return Scenario(function, tuple(modules), timeout_s)

    return mark


def find(file: str, name: str) -> Scenario:
    """Import ``file`` (once per process) and return its scenario; a bare function becomes one."""
    found = getattr(_module(file), name)
    return found if isinstance(found, Scenario) else Scenario(found, (), DEFAULT_LIMIT_S)


def _module(file: str) -> ModuleType:
    name = "scenarios_in_" + "_".join(Path(file).with_suffix("").parts[1:])
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file}: no Python module")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up there
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


@dataclass(frozen=True)
class Outcome:
    """What one run of a scenario gave.

    ``status`` is ``ok``, ``error`` (it raised), ``timeout`` (ended at its limit) or ``died`` (the
    guest did not survive it). ``error`` then says why, with the traceback where there is one.
    ``kernel_log`` are the guest's kernel messages of that time, ``duration_s`` is guest time.
    """

    scenario: str
    status: str
    value: Any = None
    error: str = ""
    stdout: str = ""
    stderr: str = ""
    kernel_log: tuple[str, ...] = ()
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether the scenario ran to its end."""
        return self.status == "ok"

    def describe(self) -> str:
        """Return everything a person needs to see why it failed."""
        log = "\n".join(self.kernel_log[-LOG_LINES_SHOWN:])
        parts = {"stdout": self.stdout, "stderr": self.stderr, "kernel log": log}
        shown = [f"--- {name} ---\n{text.rstrip()}" for name, text in parts.items() if text]
        head = f"scenario {self.scenario}: {self.status} after {self.duration_s:.2f} s"
        return "\n".join([head, *filter(None, [self.error.rstrip()]), *shown])


class ScenarioFailed(AssertionError):
    """A scenario did not run to its end; the text is all that is known of it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.describe())
        self.outcome = outcome
