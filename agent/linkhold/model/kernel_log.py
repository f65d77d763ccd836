"""What is read from the kernel's log: records, and what a line of them says of a NIC."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class LineClass(str, Enum):
    """What a line of the kernel's log reports."""

    LINK_DOWN = "link_down"
    LINK_UP = "link_up"
    BOND_FAILOVER = "bond_failover"
    BOND_DOWN = "bond_down"
    BOND_UP = "bond_up"
    TX_TIMEOUT = "tx_timeout"
    FIRMWARE_FAULT = "firmware_fault"
    HARDWARE_ERROR = "hardware_error"
    RESET = "reset"
    REMOVED = "removed"
    DEGRADED = "degraded"
    CONFIG = "config"
    NONE = "none"


class LineSeverity(str, Enum):
    """How much a line matters; ``critical``: the device is lost until it is reset or replaced."""

    NONE = "none"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """The place in the order from none (0) to critical (4)."""
        return list(LineSeverity).index(self)


class EndsLink(str, Enum):
    """Whether the link carries nothing after what a line reports."""

    NO = "no"
    LIKELY = "likely"
    YES = "yes"
    RETURNS = "returns"


class Mark(str, Enum):
    """A line that means nothing alone: a wedged processor, and the poll function it is in."""

    NOTHING = ""
    LOCKUP = "lockup"
    POLL = "poll"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the kernel's log.

    ``sequence`` counts records since boot, ``at_us`` is the kernel's local clock in microseconds
    since boot (it drifts from every other clock), ``level`` 0 (emergency) to 7 (debug),
    ``facility`` 0 for the kernel itself. ``device`` is the value of ``DEVICE=``, as
    ``+pci:0000:4b:00.0``, ``n8`` (interface index) or empty (Documentation/ABI/testing/dev-kmsg).
    """

    sequence: int
    at_us: int
    level: int
    facility: int
    text: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class Position:
    """How far the kernel's log was read: the last record taken, of which boot.

    ``sequence`` is -1 when nothing was read yet. ``cursor`` is journald's, empty for /dev/kmsg.
    """

    boot_id: str
    sequence: int = -1
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class KernelLogReading:
    """The records of one turn that may matter, and what became of the others.

    ``lost`` counts records that were overwritten before they were read, in this turn.
    ``position`` is where to resume once this reading is dealt with. ``problem`` says why nothing
    is read any more; a sensor that can be read again says so by its next reading.
    """

    records: tuple[Record, ...]
    position: Position
    lost: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one line of the kernel's log says.

    Unknown names are empty. ``address`` is a PCI address. ``bond`` is the bond of a member, for
    lines of the bonding driver. ``why`` names the rule that decided.
    """

    cls: LineClass = LineClass.NONE
    interface: str = ""
    driver: str = ""
    address: str = ""
    severity: LineSeverity = LineSeverity.NONE
    why: str = "no rule matches"
    ends_link: EndsLink = EndsLink.NO
    bond: str = ""
    mark: Mark = Mark.NOTHING


@dataclass(frozen=True, slots=True)
class PciView:
    """Which interfaces hang on which PCI functions of this host.

    ``nics`` maps the address of a NIC to its interfaces, ``ports`` the address of a bridge or
    port above one to the interfaces below it.
    """

    nics: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    ports: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def below(self, address: str) -> tuple[str, ...]:
        """Return the interfaces that a fault of this function takes away; none: no NIC's."""
        return self.nics.get(address) or self.ports.get(address) or ()
