"""What a breaker knows of a dependency, and how that changes. Pure.

It is small enough to be kept in a file, so that all processes of a node know the same: moments are
seconds of CLOCK_MONOTONIC, which the processes of one boot share.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from enum import Enum

from linkhold.client.retry.sealed import Damaged, seal, unseal

LONGEST_ASKED_S = 300.0
"""A Retry-After keeps all calls away no longer: it was said to one of them."""
MAGIC = b"linkhold breaker 1\n"
_FIELDS = struct.Struct("<IIIdQdd")
_NEVER_S = -1.0


class State(Enum):
    """Whether calls pass."""

    CLOSED = "closed"
    """All of them."""
    OPEN = "open"
    """None."""
    HALF_OPEN = "half-open"
    """One, the probe; whether it is under way is not told."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one call, to be given back by telling how it went."""

    serial: int
    probe: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """Failures in a row that open it; the first and the longest open phase in seconds."""

    failures: int
    open_s: float
    longest_open_s: float


@dataclass(frozen=True, slots=True)
class Standing:
    """Failures in a row, open phases so far, when the present one ends (None: closed).

    ``probe`` is the serial number of the probe under way, 0 without one, given up at
    ``probe_lost_s``. ``eased_s`` is when calls were last let through again.
    """

    row: int = 0
    phases: int = 0
    until_s: float | None = None
    probe: int = 0
    probe_lost_s: float = 0.0
    eased_s: float = 0.0

    def state(self, now_s: float) -> State:
        """Return whether calls pass at ``now_s``."""
        if self.until_s is None:
            return State.CLOSED
        return State.OPEN if now_s < self.until_s else State.HALF_OPEN

    def admit(self, serial: int, now_s: float, rules: Rules) -> tuple[Standing, Permit | None]:
        """Return leave for a call of this number, None if it must not be made now."""
        state = self.state(now_s)
        if state is State.CLOSED:
            return self, Permit(serial, probe=False)
        probing = self.probe and now_s < self.probe_lost_s
        if state is State.OPEN or probing:
            return self, None
        lost_s = now_s + rules.longest_open_s
        return replace(self, probe=serial, probe_lost_s=lost_s), Permit(serial, probe=True)

    def succeeded(self, now_s: float) -> Standing:
        """Closed, whatever was before."""
        known = self.until_s is None and not self.row
        return self if known else Standing(eased_s=now_s)

    def failed(
        self, permit: Permit, now_s: float, rules: Rules, *, asked_s: float, share: float
    ) -> Standing:
        """Count a failure; the row's last, or a failed probe, opens. ``share`` is from 0 to 1."""
        was_probe = permit.probe and permit.serial == self.probe
        after = replace(self.without(permit), row=min(self.row + 1, rules.failures))
        # Calls that were under way when it opened say nothing new.
        if not was_probe and (self.until_s is not None or after.row < rules.failures):
            return after
        length_s = min(rules.longest_open_s, rules.open_s * 2.0 ** min(self.phases, 64))
        pause_s = max(min(asked_s, LONGEST_ASKED_S), length_s * (0.5 + share / 2))
        return replace(after, phases=min(self.phases + 1, 64), until_s=now_s + pause_s)

    def without(self, permit: Permit) -> Standing:
        """Return it without this permit's probe, if it has one."""
        return replace(self, probe=0) if permit.serial == self.probe else self

    def unprobed(self) -> Standing:
        """Return it without a probe: the one of a parent is not its child's."""
        return replace(self, probe=0)

    def recovered(self, tripped_s: float, now_s: float) -> Standing:
        """Let one probe through, for a process whose link was down since ``tripped_s``.

        Not when another process has done so since: one node sends one probe.
        """
        if self.eased_s > tripped_s:
            return self
        return replace(self, until_s=now_s, probe=0, phases=0, eased_s=now_s)

    def believable(self, now_s: float, rules: Rules) -> bool:
        """Whether it can be true: nothing in it is too far ahead of ``now_s``."""
        most_s = max(LONGEST_ASKED_S, rules.longest_open_s)
        ahead = max(self.until_s or 0.0, self.probe_lost_s) - now_s
        return ahead <= most_s and self.eased_s <= now_s


def pack(standing: Standing, boot_id: str = "") -> bytes:
    """Return it as bytes; ``boot_id`` is whose clock its moments are of."""
    until_s = _NEVER_S if standing.until_s is None else standing.until_s
    numbers = (_mark(boot_id), standing.row, standing.phases, until_s, standing.probe)
    return seal(MAGIC, _FIELDS.pack(*numbers, standing.probe_lost_s, standing.eased_s))


def unpack(content: bytes, boot_id: str = "") -> Standing:
    """Return what :func:`pack` made; a new one for an empty file, and for one of another boot.

    Raises :class:`Damaged`.
    """
    if not content:
        return Standing()
    body = unseal(MAGIC, content)
    if len(body) != _FIELDS.size:
        raise Damaged("it has another length")
    mark, row, phases, until_s, probe, lost_s, eased_s = _FIELDS.unpack(body)
    if mark != _mark(boot_id):
        return Standing()
    return Standing(row, phases, None if until_s == _NEVER_S else until_s, probe, lost_s, eased_s)


def _mark(boot_id: str) -> int:
    return zlib.crc32(boot_id.encode())
