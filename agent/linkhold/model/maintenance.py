"""Planned work on a node, announced with an end, so that nobody is paged for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.model.clock import Moment


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Who announced what until when; ``id`` is of the request.

    It outlives a reboot, which is often what was planned: its end counts by the wall clock then.
    """

    id: str
    why: str
    by: str
    began: Moment
    ends: Moment
