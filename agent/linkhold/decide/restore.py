"""Starting again: the memory that a stored state of the same boot gives a new session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide import bonds, maintenance
from linkhold.decide.alert_tracking import RECOVERING, Tracked
from linkhold.decide.debounce import Debounced
from linkhold.decide.memory import Context, Memory
from linkhold.model import (
    HostNetwork,
    Moment,
    Network,
    NodeState,
    PowerState,
    Uploads,
    WireError,
)
from linkhold.wire.stored import parse_node_state

if TYPE_CHECKING:
    from collections.abc import Mapping

NS_DIGITS = 20
"""A moment in nanoseconds has fewer digits."""


def restore(context: Context, document: Mapping[str, Any] | None, now: Moment) -> Memory:
    """Return the memory to start with: from ``document`` if it is of this boot, else empty.

    Only planned work goes on over a reboot, which is often what was planned.

    Interface indexes and CLOCK_MONOTONIC mean nothing across boots. Open alerts go on, so that
    they keep their beginning; so do holds, power and notices, until a sensor says otherwise: a
    restart must not withdraw a stop that trainers were asked for.
    """
    if not document:
        return Memory()
    if document.get("boot_id") != context.identity.boot_id:
        return Memory(state=NodeState(maintenance=maintenance.after_boot(document, now)))
    try:
        state = parse_node_state(document)
    except WireError:
        return Memory()
    host = state.host or HostNetwork()
    down, advice = state.network is Network.DOWN, state.advice
    since_ns = state.network_since.mono_ns
    dark = state.power.state in {PowerState.BATTERY, PowerState.LOW}
    return Memory(
        state=replace(state, bonds=bonds.views(host)),
        restored=True,
        uploads_held=Debounced(down, since_ns, advice.uploads is Uploads.HOLD, since_ns),
        settled_down=Debounced(down, since_ns, "network" in advice.holds, since_ns),
        on_battery=_battery(state, raw=dark),
        power_seen=now,
        alerts={
            alert.fingerprint: Tracked(
                replace(alert, text=alert.text.removesuffix(RECOVERING)),
                Debounced(raw=True, since_ns=now.mono_ns, active=True),
            )
            for alert in state.alerts
        },
    )


def _battery(state: NodeState, *, raw: bool) -> Debounced:
    """Return the damped power failure: it still counts while its checkpoint was asked for."""
    asked = state.advice.checkpoint
    prefix, _, began = (asked.id if asked else "").rpartition("-")
    if prefix == "power" and began.isdecimal() and len(began) < NS_DIGITS:
        return Debounced(raw, state.power_since.mono_ns, active=True, began_ns=int(began))
    return Debounced(raw, state.power_since.mono_ns, raw, state.power_since.mono_ns)
