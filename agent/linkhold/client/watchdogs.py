"""Who watches a training process for hangs, and what else must be done around a hold.

A watchdog takes a process on hold for a hung one. It is fed from the training thread alone, in
slices of at most half a second, as its own client is not made for two threads.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TORCHFT_VARIABLES = ("TORCHFT_LIGHTHOUSE", "TORCHFT_MANAGER_PORT")
"""Set for the processes of a job under torchft (torchft/manager.py)."""


def heartbeat_of(given: Any) -> Callable[[], object] | None:
    """Return what feeds a watchdog: a callable as it is, or that of a known client.

    Known is ``nvidia_resiliency_ext.fault_tolerance.RankMonitorClient``. Raises
    :class:`TypeError` for anything else.
    """
    if given is None or callable(given):
        return given  # type: ignore[no-any-return]
    if callable(getattr(given, "send_heartbeat", None)):
        return lambda: _send(given)
    raise TypeError(
        f"heartbeat: {given!r} is neither a function nor has it send_heartbeat(), as the "
        "RankMonitorClient of nvidia-resiliency-ext has"
    )


def _send(client: Any) -> None:
    """Send a heartbeat once the client is connected, which a Hold may be before."""
    if getattr(client, "is_initialized", True):
        client.send_heartbeat()


def under_torchft() -> bool:
    """Tell whether torchft manages this process: it drops a rank that pauses and goes on."""
    return "torchft" in sys.modules or any(name in os.environ for name in TORCHFT_VARIABLES)


def drain_streams() -> None:
    """Wait for what was given to a GPU: NCCL's watchdog counts the time of unfinished work.

    Raises what the GPU reports of that work, as the next step would have.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
