"""A condition that must last before it counts, and must be gone before it ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delays:
    """How long a condition must last to begin (``on_s``) and be gone to end (``off_s``)."""

    on_s: float
    off_s: float


@dataclass(frozen=True, slots=True)
class Debounced:
    """A raw condition, since when it is as it is (ns), and whether it counts.

    ``began_ns`` is when what counts now, or counted last, began.
    """

    raw: bool = False
    since_ns: int = 0
    active: bool = False
    began_ns: int = 0

    def observe(self, raw: bool, now_ns: int, delays: Delays) -> Debounced:  # noqa: FBT001
        """Return the condition after a look at ``raw`` at ``now_ns``."""
        since_ns = self.since_ns if raw == self.raw else now_ns
        wait_s = delays.on_s if raw else delays.off_s
        lasted = now_ns >= since_ns + int(wait_s * 1e9)
        active = raw if lasted else self.active
        if (raw, active) == (self.raw, self.active):
            return self
        began_ns = since_ns if active and not self.active else self.began_ns
        return Debounced(raw, since_ns, active, began_ns)

    def due_ns(self, delays: Delays) -> int | None:
        """Return when it begins or ends to count if nothing changes, None if it is settled."""
        if self.raw == self.active:
            return None
        wait_s = delays.on_s if self.raw else delays.off_s
        return self.since_ns + int(wait_s * 1e9)


def is_flapping(
    downs: tuple[int, ...], now_ns: int, *, count: int, window_s: float, quiet_s: float
) -> bool:
    """Tell whether ``count`` losses within ``window_s`` happened, the last in ``quiet_s``.

    ``downs`` are the times of the losses in ns, oldest first.
    """
    if len(downs) < count or now_ns - downs[-1] >= quiet_s * 1e9:
        return False
    return downs[-1] - downs[-count] <= window_s * 1e9


def flap_end_ns(downs: tuple[int, ...], quiet_s: float) -> int:
    """Return when a flapping thing counts as steady if no further loss comes."""
    return downs[-1] + int(quiet_s * 1e9)
