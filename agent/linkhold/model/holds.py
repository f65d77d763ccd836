"""A hold that an operator asked for, by ``linkhold hold``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.model.clock import Moment

Key = tuple[int, int]
"""A process as it knows itself: its pid in its own pid namespace, and field 22 of its stat."""


@dataclass(frozen=True, slots=True)
class OperatorHold:
    """What is held, by whom and until when; ``job`` is empty for the whole node.

    ``processes`` are the job's when the hold began: these and what they start are held. ``by`` is
    the user's name, ``uid`` his number, both of the process that asked.
    """

    job: str
    uploads: bool
    training: bool
    why: str
    by: str
    uid: int
    began: Moment
    ends: Moment
    processes: tuple[Key, ...] = ()

    @property
    def what(self) -> str:
        """What is held, in words."""
        both = self.uploads and self.training
        return "training and uploads" if both else "training" if self.training else "uploads"

    @property
    def subject(self) -> str:
        """The job, or ``node``."""
        return self.job or "node"
