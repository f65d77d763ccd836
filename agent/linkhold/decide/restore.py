"""Starting again: the memory that a stored state of the same boot gives a new session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide import bonds
from linkhold.decide.alerts import RECOVERING, Tracked
from linkhold.decide.debounce import Debounced
from linkhold.decide.memory import Context, Memory
from linkhold.model import HostNetwork, Moment, Network, WireError
from linkhold.wire.stored import parse_node_state

if TYPE_CHECKING:
    from collections.abc import Mapping


def restore(context: Context, document: Mapping[str, Any] | None, now: Moment) -> Memory:
    """Return the memory to start with: from ``document`` if it is of this boot, else empty.

    Interface indexes and CLOCK_MONOTONIC mean nothing across boots. Open alerts go on, so that
    they keep their beginning; damped holds start from what was last known.
    """
    if not document or document.get("boot_id") != context.identity.boot_id:
        return Memory()
    try:
        state = parse_node_state(document)
    except WireError:
        return Memory()
    host = state.host or HostNetwork()
    down = state.network is Network.DOWN
    held = Debounced(raw=down, since_ns=state.network_since.mono_ns, active=False)
    return Memory(
        state=replace(state, bonds=bonds.views(host)),
        restored=True,
        uploads_held=held,
        settled_down=held,
        alerts={
            alert.fingerprint: Tracked(
                replace(alert, text=alert.text.removesuffix(RECOVERING)),
                Debounced(raw=True, since_ns=now.mono_ns, active=True),
            )
            for alert in state.alerts
        },
    )
