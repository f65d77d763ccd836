"""What a restarted agent remembers of power, from the state that was stored in this boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.debounce import Debounced
from linkhold.decide.power.source import DARK, FORCED_S, SECOND
from linkhold.decide.power.values import Memory, Source
from linkhold.model import PowerState

if TYPE_CHECKING:
    from linkhold.model import Moment, NodeState
    from linkhold.model.power_sources import SourceReading


FIRST_S = 5.0
"""So long a source may be silent at the start without being told: most speak within it."""


def recall(state: NodeState, now: Moment) -> Memory:
    """Return what to begin with; ``state`` is empty where nothing was stored in this boot.

    A source that was on battery still is until it says otherwise, and an outage that was told is
    not told again. What a source said while all was well is not believed any more.
    """
    dark = state.power.state in DARK
    asked = state.advice.checkpoint
    prefix, _, began = (asked.id if asked else "").rpartition("-")
    began_ns = int(began) if prefix == "power" and began.isdecimal() else state.power_since.mono_ns
    active = dark or prefix == "power"
    return Memory(
        sources={one.source: _source(one) for one in state.power_view.sources if one.state in DARK},
        outage=Debounced(dark, state.power_since.mono_ns, active, began_ns),
        degraded=_stood(state, stood=bool(state.power_view.degraded)),
        unknown=_stood(state, stood=state.power_view.unknown),
        low_told=state.power.state is PowerState.LOW,
        seen=state.power.state is not PowerState.UNKNOWN,
        first_until_ns=first_until_ns(now),
    )


def first_until_ns(now: Moment) -> int:
    """Return until when sources that were just named or started are waited for."""
    return now.mono_ns + int(FIRST_S * SECOND)


def _stood(state: NodeState, *, stood: bool) -> Debounced:
    since_ns = state.power_since.mono_ns
    return Debounced(stood, since_ns, stood, since_ns)


def _source(one: SourceReading) -> Source:
    heard_ns = one.at.mono_ns if one.at is not None else None
    end_ns = None
    left_s = FORCED_S if one.forced_shutdown else one.runtime_s
    if heard_ns is not None and left_s is not None:
        end_ns = heard_ns + int(min(left_s, one.runtime_s or left_s) * SECOND)
    return Source(
        state=one.state,
        raw=one.state,
        raw_ns=heard_ns or 0,
        heard_ns=heard_ns,
        at=one.at,
        live=True,
        forced=one.forced_shutdown,
        forced_since_ns=heard_ns if one.forced_shutdown else None,
        charge=one.charge,
        runtime_s=one.runtime_s,
        end_ns=end_ns,
        tokens=one.tokens,
        degraded=one.degraded,
        detail=one.detail,
    )
