"""The node's lines to the world, in order of preference, as probes and routes show them."""

from __future__ import annotations

from dataclasses import dataclass


def why(link: str, reason: str) -> str:
    """Return the reason of a verdict as a clause that names the uplink once."""
    if reason.startswith(f"{link} "):
        return reason
    return f"{link} has {reason}" if reason.startswith("no answer") else f"{link}: {reason}"


@dataclass(frozen=True, slots=True)
class UplinkView:
    """One uplink. ``verdict`` is alive, dead or unknown, ``reason`` why it is not alive.

    ``active``: default traffic goes over it. ``since_ns`` is since when the verdict stands
    (CLOCK_MONOTONIC); ``rtt_ms`` the answer time when this was last told, None without one.
    """

    link: str
    verdict: str = "unknown"
    reason: str = ""
    active: bool = False
    metered: bool = False
    since_ns: int = 0
    rtt_ms: float | None = None

    @property
    def why(self) -> str:
        """Why it is not alive, for people."""
        return why(self.link, self.reason)

    @property
    def shown(self) -> str:
        """The name for people, with a mark that its traffic costs money."""
        return f"{self.link} (metered)" if self.metered else self.link


@dataclass(frozen=True, slots=True)
class Uplinks:
    """All uplinks in order of preference; empty where none are configured.

    ``would`` is the uplink that the agent would switch to if it were allowed to, empty for none;
    ``locked`` says that it has switched too often and why it stays; ``problem`` why uplinks
    cannot be looked after at all.
    """

    lines: tuple[UplinkView, ...] = ()
    would: str = ""
    locked: str = ""
    problem: str = ""

    @property
    def active(self) -> UplinkView | None:
        """The uplink that carries default traffic, None when it is none of these."""
        return next((line for line in self.lines if line.active), None)
