"""What the agent, its clients and its commands must mean the same by."""

from __future__ import annotations

STALE_S = 15.0
"""A state older than this comes from an agent that died or hangs (it writes every 5 s): it counts
for nothing."""
FIT_SAVES = 1.5
"""A save and its upload must fit this many times into what is left, else the save stays local."""
