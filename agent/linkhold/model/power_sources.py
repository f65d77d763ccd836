"""What single power sources say: as they say it, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from linkhold.model.node import PowerState

if TYPE_CHECKING:
    from linkhold.model.clock import Moment


class SourceKind(str, Enum):
    """How near a source is to the node's plug, and so how far it is believed.

    ``ups``: a UPS that feeds the node (NUT). ``supply``: the kernel's own view of this machine's
    supplies. ``sensor``: a thing on MQTT that watches mains somewhere; one alone never stops
    training. ``feeds``: the cables of the machine's PSUs, which say only that one of them is lost.
    """

    UPS = "ups"
    SUPPLY = "supply"
    SENSOR = "sensor"
    FEEDS = "feeds"


class Dialect(str, Enum):
    """How a sensor on MQTT speaks; the names are those of ``linkhold explain payload``."""

    GENERIC = "generic"
    TASMOTA = "tasmota"
    ESPHOME = "esphome"
    SHELLY_GEN1 = "shelly-gen1"
    SHELLY_GEN2 = "shelly-gen2"
    ZIGBEE2MQTT = "zigbee2mqtt"
    APCUPSD_STATUS = "apcupsd-status"
    APCUPSD_EVENT = "apcupsd-event"
    APCUPSD_TEXT = "apcupsd-text"
    NUT_STATUS = "nut-status"
    NUT_NOTIFY = "nut-notify"


@dataclass(frozen=True, slots=True)
class UpsReport:
    """What upsd says of one UPS at one poll.

    ``error`` is the word after ``ERR``, or why upsd could not be asked; ``status`` is then empty.
    ``charge`` and ``charge_low`` are percent, ``runtime_s`` seconds; None: not told.
    """

    ups: str
    status: str = ""
    charge: float | None = None
    charge_low: float | None = None
    runtime_s: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Supply:
    """One entry of /sys/class/power_supply; None and empty: no such file.

    ``scope`` is ``Device`` for the battery of a mouse or keyboard. ``capacity`` is percent.
    """

    name: str
    kind: str
    scope: str = ""
    online: bool | None = None
    status: str = ""
    capacity: float | None = None
    capacity_level: str = ""
    runtime_s: float | None = None


@dataclass(frozen=True, slots=True)
class PsuInput:
    """The input voltage of a power supply unit; ``driver`` is the kernel's."""

    name: str
    driver: str
    volts: float


@dataclass(frozen=True, slots=True)
class SensorMessage:
    """One MQTT message of a power sensor, as it came. ``retained``: kept by the broker."""

    topic: str
    payload: bytes
    retained: bool = False


@dataclass(frozen=True, slots=True)
class SourceReading:
    """One source as the state shows it.

    ``state`` holds while contact is lost if it was ``battery`` or ``low``; ``stale`` says so.
    ``at`` is when the source last told its state, None for never; ``charge`` is percent,
    ``runtime_s`` what it had left at ``at``. ``degraded`` are reasons to look after it;
    ``detail`` is for a person.
    """

    source: str
    kind: SourceKind
    state: PowerState = PowerState.UNKNOWN
    at: Moment | None = None
    stale: bool = False
    charge: float | None = None
    runtime_s: float | None = None
    forced_shutdown: bool = False
    tokens: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()
    detail: str = ""
