"""What one message of a power source means, whatever its dialect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from linkhold.model import Severity


class What(str, Enum):
    """The meanings. ``none``: understood, says nothing of power; ``ignored``: not to be read.

    ``outlet_off``: mains are there, but the outlet is switched off.
    """

    OK = "power_ok"
    LOST = "power_lost"
    LOW = "power_low"
    SHUTDOWN = "power_shutdown"
    RESTORED = "power_restored"
    DEGRADED = "power_degraded"
    CALIBRATION = "calibration"
    OUTLET_OFF = "outlet_off"
    COMM_LOST = "power_comm_lost"
    COMM_OK = "power_comm_ok"
    SENSOR_OFFLINE = "sensor_offline"
    NONE = "none"
    IGNORED = "ignored"
    UNKNOWN = "unknown"


SEVERITIES = {
    What.LOST: Severity.CRITICAL,
    What.LOW: Severity.CRITICAL,
    What.SHUTDOWN: Severity.CRITICAL,
    What.DEGRADED: Severity.WARNING,
    What.CALIBRATION: Severity.WARNING,
    What.OUTLET_OFF: Severity.WARNING,
    What.COMM_LOST: Severity.WARNING,
    What.SENSOR_OFFLINE: Severity.WARNING,
    What.UNKNOWN: Severity.WARNING,
}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a message says and by which rule (``why``, for a person).

    ``reason`` is what is wrong, if something is; ``channel`` the outlet it is about; ``volts``
    what was measured; ``tokens`` the words of a UPS. ``alive`` is what a message about the
    sensor itself says: True for online, None for every other message. ``aspect`` is ``input`` or
    ``outlet`` for what only tells of that.
    """

    what: What
    why: str
    severity: Severity = Severity.INFO
    reason: str = ""
    channel: str = ""
    volts: float | None = None
    tokens: tuple[str, ...] = ()
    alive: bool | None = None
    aspect: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """What of a device is watched; empty: whatever it tells.

    ``aspect`` is ``input`` (a contact that closes while mains are there) or ``outlet`` (its relay
    and meter); a device with both must not answer for one with the other. ``channel`` is the
    number or name of the input or outlet.
    """

    aspect: str = ""
    channel: str = ""

    def admits(self, found: Meaning) -> bool:
        """Tell whether a meaning is about what is watched; one without an aspect always is."""
        if not found.aspect:
            return True
        return self.aspect in {"", found.aspect} and self.channel in {"", found.channel}


ANYTHING = Watched()


def meaning(what: What, why: str, severity: Severity | None = None, **more: object) -> Meaning:
    """Return a meaning with the usual severity of its kind, unless ``severity`` is given."""
    usual = severity if severity is not None else SEVERITIES.get(what, Severity.INFO)
    return replace(Meaning(what, why, usual), **more)  # type: ignore[arg-type]


def retained(found: Meaning) -> Meaning:
    """Return what a retained message means: the state at the start, of unknown age.

    It is no new event, and nothing is shut down on it alone, so it is less severe.
    """
    if found.what is What.SENSOR_OFFLINE:
        return replace(found, severity=Severity.INFO)
    if found.severity is Severity.CRITICAL:
        why = f"{found.why}; retained, so it may be old: a state, not an event"
        return replace(found, severity=Severity.WARNING, why=why)
    return found


def worst(found: list[Meaning], watched: Watched = ANYTHING) -> Meaning | None:
    """Return what matters most of what is watched; None where nothing is."""
    order = (What.SHUTDOWN, What.LOW, What.LOST, What.OUTLET_OFF, What.DEGRADED, What.OK)
    admitted = [one for one in found if watched.admits(one)]
    for what in order:
        for one in admitted:
            if one.what is what:
                return one
    return admitted[0] if admitted else None
