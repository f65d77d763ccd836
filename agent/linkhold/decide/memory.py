"""What the core remembers from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.decide.debounce import Debounced
from linkhold.model import Identity, Moment, NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.settings import Settings
    from linkhold.decide.alert_tracking import Tracked


@dataclass(frozen=True, slots=True)
class Context:
    """What stays the same from step to step: the configuration and who we are."""

    settings: Settings
    identity: Identity


@dataclass(frozen=True, slots=True)
class Memory:
    """All that the core remembers. ``state`` is what is shown; the rest serves decisions.

    ``restored`` is True until the first look after a start that found a stored state of the
    same boot.
    """

    state: NodeState = NodeState()
    next_seq: int = 1
    restored: bool = False
    network_downs: tuple[int, ...] = ()
    uploads_held: Debounced = Debounced()
    settled_down: Debounced = Debounced()
    on_battery: Debounced = Debounced()
    power_seen: Moment = Moment(0, 0.0)
    alerts: Mapping[str, Tracked] = field(default_factory=dict)
