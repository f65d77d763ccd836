"""The kernel's own supplies: /sys/class/power_supply, read again at each uevent.

Reading asks the machine's firmware (ACPI, a USB UPS) and may take its time, so it is done in a
thread, and one reading at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.deadlines import within
from linkhold.model.power_sources import PsuInput, Supply
from linkhold.sensors.hwmon import inputs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROOT = Path("/sys/class/power_supply")
NETLINK_KOBJECT_UEVENT, KERNEL_GROUP = 15, 1
DATAGRAM_BYTES = 8192  # the kernel's UEVENT_BUFFER_SIZE is 2048, its header comes on top
MAX_SUPPLIES = 64
MAX_FILE_BYTES = 256
READ_S = 30.0
"""How often it is read without an event: some drivers send none for the charge."""
LOOK_S = 60.0
"""How often it is looked whether there is a supply at all. No event is listened to until then: a
node with thousands of containers makes very many."""
SLOW_S = 10.0
SETTLE_S = 0.01
"""So long after a reading the next one begins: the first word of a loss is not waited with, and
what else the machine's supplies say together is one reading more."""


def supplies(root: Path = ROOT) -> tuple[Supply, ...]:
    """Read every supply; a file that cannot be read is not there. Blocks: firmware answers."""
    try:
        folders = sorted(root.iterdir())[:MAX_SUPPLIES]
    except OSError:
        return ()
    return tuple(_supply(folder) for folder in folders)


def _supply(folder: Path) -> Supply:
    online = _number(folder / "online")
    return Supply(
        name=folder.name,
        kind=_text(folder / "type"),
        scope=_text(folder / "scope"),
        online=None if online is None else online != 0,  # 2: a programmable USB supply is on
        status=_text(folder / "status"),
        capacity=_number(folder / "capacity"),
        capacity_level=_text(folder / "capacity_level"),
        runtime_s=_number(folder / "time_to_empty_now"),
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""  # no such file, or the driver has no answer just now (EAGAIN, ENODATA, EIO)


def _number(path: Path) -> float | None:
    try:
        return float(_text(path))
    except ValueError:
        return None


class Uevents:
    """The kernel's uevents of one subsystem. Register :meth:`fileno` for reading.

    Raises OSError where the socket is refused.
    """

    def __init__(self, subsystem: str = "power_supply") -> None:
        self._wanted = b"SUBSYSTEM=" + subsystem.encode()
        self._socket = socket.socket(
            socket.AF_NETLINK,
            socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK,
            NETLINK_KOBJECT_UEVENT,
        )
        try:
            self._socket.bind((0, KERNEL_GROUP))
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor, readable while messages wait."""
        return self._socket.fileno()

    def changed(self) -> bool:
        """Take in what waits; True when the subsystem changed, or messages were lost.

        Only the kernel (port 0) is believed: a privileged process may send to the same group.
        """
        found = False
        while True:
            try:
                data, (port, _) = self._socket.recvfrom(DATAGRAM_BYTES)
            except BlockingIOError:
                return found
            except OSError:
                return True  # ENOBUFS: some were dropped, so look
            found = found or (port == 0 and self._wanted in data.split(b"\0"))

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._socket.close()


class PowerSupplySensor:
    """Reads the supplies at each uevent and every 30 s; cancel :meth:`run` to stop.

    Where there is none it looks once a minute. ``in_thread`` runs a call that may hang.
    ``counters``: supply_reads, supply_events, supply_slow (readings that took over 10 s).
    """

    def __init__(
        self,
        root: Path = ROOT,
        uevents: Uevents | None = None,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread,
    ) -> None:
        self.counters: Counter[str] = Counter(supply_reads=0, supply_events=0, supply_slow=0)
        self._root = root
        self._psus = root.parent / "hwmon"
        self._inputs: tuple[PsuInput, ...] = ()
        self._uevents = uevents
        if uevents is not None:
            asyncio.get_running_loop().add_reader(uevents.fileno(), self._heard)
        self._in_thread = in_thread
        self._event = asyncio.Event()

    async def run(
        self,
        report: Callable[[tuple[Supply, ...]], None],
        report_feeds: Callable[[tuple[PsuInput, ...]], None] = lambda _: None,
    ) -> None:
        """Read now and again; ``report`` gets all supplies at each reading, then come the PSUs'."""
        try:
            while True:
                found = await self._read()
                report(found)
                report_feeds(self._inputs)
                if found and self._uevents is None:
                    self._listen()
                await asyncio.sleep(SETTLE_S)
                with contextlib.suppress(asyncio.TimeoutError):
                    await within(self._event.wait(), READ_S if found or self._inputs else LOOK_S)
                self._event.clear()
        finally:
            if self._uevents is not None:
                asyncio.get_running_loop().remove_reader(self._uevents.fileno())
                self._uevents.close()

    def _listen(self) -> None:
        """Hear of events from now on; where the socket is refused the slow readings must do."""
        with contextlib.suppress(OSError):
            self._uevents = Uevents()
            asyncio.get_running_loop().add_reader(self._uevents.fileno(), self._heard)

    async def _read(self) -> tuple[Supply, ...]:
        self.counters["supply_reads"] += 1
        reading = asyncio.ensure_future(self._in_thread(self._look))
        done, _ = await asyncio.wait({reading}, timeout=SLOW_S)
        self.counters["supply_slow"] += not done
        found: tuple[Supply, ...] = await reading
        return found

    def _look(self) -> tuple[Supply, ...]:
        found = supplies(self._root)
        self._inputs = inputs(self._psus)
        return found

    def _heard(self) -> None:
        if self._uevents is not None and self._uevents.changed():
            self.counters["supply_events"] += 1
            self._event.set()
