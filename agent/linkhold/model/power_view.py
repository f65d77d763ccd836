"""What all sources of power and all announcements show, beside what follows for the node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.clock import Moment
    from linkhold.model.power_sources import SourceReading


@dataclass(frozen=True, slots=True)
class Deadline:
    """The earliest moment at which this machine may end, and which source says so."""

    at: Moment
    source: str


@dataclass(frozen=True, slots=True)
class PowerView:
    """Every source of power.

    ``deadline`` is when the battery is empty, None while nobody says so. ``degraded`` are reasons
    to look after the supply; ``unknown``: nothing has been known for so long that a person should
    hear of it.
    """

    sources: tuple[SourceReading, ...] = ()
    deadline: Deadline | None = None
    degraded: tuple[str, ...] = ()
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class NoticesView:
    """Who is asked for notices.

    ``cloud`` is the vendor that is asked, empty for none; ``locked``: logind waits for this agent
    before a shutdown. ``blind`` says of each source that tells nothing believable why.
    ``missed`` are those of ``blind`` that did tell something before.
    """

    cloud: str = ""
    locked: bool = False
    blind: Mapping[str, str] = field(default_factory=dict)
    missed: tuple[str, ...] = ()
