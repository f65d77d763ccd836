"""The values of the power machine: rules, what is said to it, what it remembers and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.decide.debounce import Debounced
from linkhold.model import Power, PowerState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.happening import Happening
    from linkhold.decide.power.meaning import Meaning
    from linkhold.model import Moment
    from linkhold.model.power_sources import SourceKind
    from linkhold.model.power_view import PowerView


@dataclass(frozen=True, slots=True)
class SourceRules:
    """One source. ``max_age_s``: silent for longer, it is unknown.

    Choose at least three polls of a UPS; for a sensor what its device promises (Tasmota's
    TelePeriod is 300 s by default). ``debounce_s``: a change must last so long to count.
    """

    name: str
    kind: SourceKind
    max_age_s: float = 15.0
    debounce_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """The sources and how they are counted.

    ``supplies_needed``: with fewer UPSes or supplies the node goes dark. ``sensors_needed``: so
    many sensors must agree before mains count as gone for certain, never less than two.
    ``mains_back_s``: mains must be back for so long before an outage is over.
    """

    sources: tuple[SourceRules, ...]
    supplies_needed: int = 1
    sensors_needed: int = 2
    mains_back_s: float = 30.0
    unknown_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Said:
    """One message of one source, judged, with the figures that came with it.

    ``charge`` and ``charge_low`` are percent; ``runtime_s`` is what the battery has left.
    """

    source: str
    meaning: Meaning
    charge: float | None = None
    charge_low: float | None = None
    runtime_s: float | None = None
    retained: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """What is remembered of one source.

    ``state`` counts; ``raw`` since ``raw_ns`` may come to count. ``excused`` is what the source
    would say but for a test or calibration that explains it. ``heard_ns`` is its last sign of
    life, ``end_ns`` when its battery is empty. The ``..._since_ns`` (None: not so) are the
    beginnings of words that are believed for a time only. ``gone``: its will says that it is dead.
    """

    state: PowerState = PowerState.UNKNOWN
    raw: PowerState = PowerState.UNKNOWN
    raw_ns: int = 0
    excused: PowerState | None = None
    heard_ns: int | None = None
    at: Moment | None = None
    offline: str = ""
    gone: bool = False
    live: bool = False
    forced: bool = False
    charge: float | None = None
    runtime_s: float | None = None
    end_ns: int | None = None
    tokens: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    detail: str = ""
    last: Said | None = None
    low_since_ns: int | None = None
    test_since_ns: int | None = None
    off_since_ns: int | None = None
    forced_since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """What the machine remembers from step to step.

    ``told``, ``told_end_ns`` and ``shown`` are what was reported last, the latter without what
    moves all the time. Until ``first_until_ns`` sources that were not heard yet are waited for.
    """

    sources: Mapping[str, Source] = field(default_factory=dict)
    outage: Debounced = Debounced()
    unknown: Debounced = Debounced()
    degraded: Debounced = Debounced()
    low_told: bool = False
    seen: bool = False
    told: Power | None = None
    told_end_ns: int | None = None
    shown: PowerView | None = None
    first_until_ns: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What follows. ``report`` is False while nothing new is to be told to the core.

    ``wake_ns`` is when to come again with nothing said, None: not needed.
    """

    memory: Memory
    power: Power
    view: PowerView
    report: bool = False
    news: tuple[Happening, ...] = ()
    wake_ns: int | None = None
