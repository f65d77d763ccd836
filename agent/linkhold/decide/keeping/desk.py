"""All bonds during one step: the memory as it becomes, and what is asked for on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.happening import Happening
from linkhold.decide.keeping.values import BondMemory
from linkhold.model import Severity

if TYPE_CHECKING:
    from linkhold.decide.keeping.values import Action, Memory, Rules

SECOND = 1_000_000_000


class Desk:
    """What a step works on. Only the step that made it changes it."""

    def __init__(self, rules: Rules, memory: Memory, now_ns: int) -> None:
        self.rules = rules
        self.memory = memory
        self.now_ns = now_ns
        self.actions: list[Action] = []
        self.news: list[Happening] = []

    def put(self, **changes: Any) -> None:
        """Change what is remembered of all."""
        self.memory = replace(self.memory, **changes)

    def bond(self, name: str) -> BondMemory:
        """Return what is remembered of a bond."""
        return self.memory.bonds.get(name) or BondMemory()

    def put_bond(self, name: str, **changes: Any) -> BondMemory:
        """Change what is remembered of a bond, and return it."""
        bond = replace(self.bond(name), **changes)
        self.put(bonds={**self.memory.bonds, name: bond})
        return bond

    def say(self, type_: str, bond: str, severity: Severity = Severity.INFO, **data: Any) -> None:
        """Tell of something that happened."""
        self.news.append(Happening(type_, bond, data, severity))

    @property
    def running(self) -> str:
        """The bond that a repair is at work on, empty for none."""
        return next((name for name, bond in self.memory.bonds.items() if bond.mending_ns), "")

    @property
    def busy(self) -> str:
        """The bond that somebody's change is at work on, empty for none."""
        return self.memory.journal.busy if self.memory.journal else ""
