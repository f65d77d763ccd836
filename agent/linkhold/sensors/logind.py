"""logind: word of a shutdown, and a lock that delays it while training saves.

The lock gives what InhibitDelayMaxSec grants (5 s by default; the drop-in of linkhold says 60).
``reboot -f``, sysrq and a kernel panic ask nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.deadlines import within
from linkhold.decide.notices.shutdown import LogindReport
from linkhold.sensors.system_bus import BUS, Refused, SystemBus

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "org.freedesktop.login1"
PATH = "/org/freedesktop/login1"
MANAGER = (PATH, NAME, "org.freedesktop.login1.Manager")
PROPERTIES = (PATH, NAME, "org.freedesktop.DBus.Properties")
DBUS = ("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
MATCH = (
    f"type='signal',sender='{NAME}',path='{PATH}',"
    "interface='org.freedesktop.login1.Manager',member='PrepareForShutdown'"
)
LOOK_S = 30.0
"""How often a planned shutdown is looked for: logind sends no signal when one is planned."""
SETTLE_S = 0.01
"""A flood of signals is looked at so often at the most."""
RETRY_S, RETRY_MAX_S = 2.0, 60.0
MANY = 5
"""After so many failures the wait does not grow any more."""
FAILURES = (Refused, OSError, EOFError, ValueError, asyncio.TimeoutError)


class LogindSensor:
    """Holds a delay lock and reports shutdowns; cancel :meth:`run` to stop and let go.

    ``counters``: logind_connects, logind_failures.
    """

    def __init__(self, *, bus: str = BUS, why: str = "training saves a checkpoint") -> None:
        self.counters: Counter[str] = Counter(logind_connects=0, logind_failures=0)
        self._bus_path, self._why = bus, why
        self._lock: Any = None
        self._report = LogindReport()
        self._changed = asyncio.Event()

    async def run(self, report: Callable[[LogindReport], None]) -> None:
        """Connect, and again when the bus is gone; ``report`` gets each change.

        Raises Unavailable where D-Bus cannot be spoken at all.
        """
        failures = 0
        try:
            while True:
                bus = SystemBus(self._signal, self._changed.set)
                try:
                    await bus.connect(self._bus_path)
                    failures = 0
                    await self._follow(bus, report)
                except FAILURES as error:
                    self._fail(report, error)
                    if isinstance(error, FileNotFoundError) and self._never_heard():
                        failures = MANY  # there is no bus here
                finally:
                    bus.close()
                failures += 1
                await asyncio.sleep(min(RETRY_MAX_S, RETRY_S * 2.0 ** min(failures - 1, MANY)))
        finally:
            self.release()

    def _never_heard(self) -> bool:
        return not self.counters["logind_connects"]

    @property
    def holds(self) -> bool:
        """Whether a shutdown waits for us."""
        return self._lock is not None

    def release(self) -> None:
        """Let the shutdown go on; without a lock this does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()
        self._report = replace(self._report, locked=False)

    def _signal(self, member: str, _body: tuple[Any, ...]) -> None:
        """Look again: any local user may send us a signal, only logind answers for logind."""
        if member == "PrepareForShutdown":
            self._changed.set()

    async def _follow(self, bus: SystemBus, report: Callable[[LogindReport], None]) -> None:
        self.counters["logind_connects"] += 1
        await bus.call(DBUS, "AddMatch", "s", (MATCH,))
        self._report = await self._looked(bus)
        told: LogindReport | None = None
        while True:
            if self._lock is None and not self._report.preparing:
                await self._take(bus)
            if self._report != told:
                told = self._report
                report(told)
            await self._wait(bus)
            self._report = await self._looked(bus)

    async def _wait(self, bus: SystemBus) -> None:
        """Wait for a signal, the next look, or the end of the connection (EOFError)."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(self._changed.wait(), LOOK_S)
            await asyncio.sleep(SETTLE_S)
        self._changed.clear()
        if bus.ended:
            raise EOFError("the bus is gone")

    async def _take(self, bus: SystemBus) -> None:
        asked = ("shutdown", "linkhold", self._why, "delay")
        (self._lock,) = await bus.call(MANAGER, "Inhibit", "ssss", asked, brings_fd=True)
        self._report = replace(self._report, locked=True)

    async def _looked(self, bus: SystemBus) -> LogindReport:
        answer = await bus.call(PROPERTIES, "GetAll", "s", (MANAGER[2],))
        try:
            return replace(reported(answer), locked=self._lock is not None)
        except (TypeError, AttributeError, OverflowError):
            raise ValueError("the answer is not that of logind") from None

    def _fail(self, report: Callable[[LogindReport], None], error: BaseException) -> None:
        self.counters["logind_failures"] += 1
        # A lock outlives the connection that it came over: logind holds the other end.
        text = "no answer in time" if isinstance(error, asyncio.TimeoutError) else str(error)
        if isinstance(error, OSError) and error.strerror:
            text = error.strerror
        self._report = LogindReport(locked=self._lock is not None)
        report(replace(self._report, error=f"logind at {self._bus_path}: {text}"))


def reported(answer: tuple[Any, ...]) -> LogindReport:
    """Return what an answer to GetAll says.

    Raises ValueError, TypeError, AttributeError or OverflowError for an answer of another form.
    """
    (values,) = answer
    plain = {name: value for name, (_, value) in values.items()}
    kind, at_us = plain.get("ScheduledShutdown", ("", 0))
    planned = bool(kind) and 0 < at_us < 1 << 63
    return LogindReport(
        preparing=plain.get("PreparingForShutdown") is True,
        scheduled=str(kind) if planned else "",
        at_s=at_us / 1e6 if planned else None,
        delay_s=float(plain.get("InhibitDelayMaxUSec", 5_000_000)) / 1e6,
    )
