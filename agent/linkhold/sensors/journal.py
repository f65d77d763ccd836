"""The kernel's log as journald has it, for where /dev/kmsg is closed to us.

systemd-python blocks while it reads and waits, so it lives in a thread of its own. What journald
itself could not keep is not seen here: /dev/kmsg is better wherever it can be read.
"""

from __future__ import annotations

import importlib
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from linkhold.decide.kernel_log import worth
from linkhold.model import Unavailable
from linkhold.model.kernel_log import KernelLogReading, Position, Record

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

BATCH_ENTRIES = 256
WAIT_S = 1.0
"""How long one wait lasts, and so the most that :meth:`JournalSensor.stop` takes effect after."""


class JournalSensor:
    """Follows the kernel's entries of this boot; made and used as the sensor of /dev/kmsg.

    ``since_s`` is a time of CLOCK_MONOTONIC: where an unknown position of this boot begins.

    ``counters``: kernel_log_records, kernel_log_foreign, kernel_log_failures (of the thread).
    """

    def __init__(
        self, boot_id: str, position: Position | None = None, since_s: float = 0.0
    ) -> None:
        self.counters: Counter[str] = Counter(
            kernel_log_records=0, kernel_log_foreign=0, kernel_log_failures=0
        )
        self._boot_id = boot_id
        self._start = position
        self._since_s = since_s
        known = position is not None and position.boot_id == boot_id and position.cursor
        self._last = position.sequence if known and position is not None else -1
        self._cursor = position.cursor if known and position is not None else ""
        self._ended = threading.Event()

    @property
    def position(self) -> None:
        """Unknown here: the thread may be ahead of what the loop has dealt with."""

    def start(
        self, report: Callable[[KernelLogReading], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Open the journal and follow it; ``report`` is called on the loop. Raises Unavailable."""
        reader = self._opened()
        thread = threading.Thread(
            target=self._follow, args=(reader, report, loop), daemon=True, name="linkhold-journal"
        )
        thread.start()

    def stop(self) -> None:
        """Follow no more, a second later at most; a second call does nothing."""
        self._ended.set()

    def _opened(self) -> Any:
        try:
            journal = importlib.import_module("systemd.journal")
        except ImportError:
            raise Unavailable("journald: the module systemd-python is not installed") from None
        try:
            reader = journal.Reader()
            reader.add_match(_TRANSPORT="kernel")
            reader.add_match(_BOOT_ID=self._boot_id.replace("-", ""))
            self._check(reader)
            self._seek(reader)
        except OSError as error:
            raise Unavailable(f"journald: {error.strerror or error}") from error
        return reader

    @staticmethod
    def _check(reader: Any) -> None:
        """Refuse a journal without a line of this boot's kernel: silence there says nothing.

        The library opens also where no journald runs, or this user may read nothing of it.
        """
        reader.seek_head()
        if not reader.get_next():
            raise Unavailable("journald: has no line of the kernel that this user may read")

    def _seek(self, reader: Any) -> None:
        start = self._start
        if start is None:
            reader.seek_tail()
            reader.get_previous()
        elif start.boot_id == self._boot_id and start.cursor:
            reader.seek_cursor(start.cursor)
            reader.get_next()  # the entry of the cursor itself was dealt with
        elif self._since_s > 0:
            reader.seek_monotonic(self._since_s)
        else:
            reader.seek_head()

    def _follow(
        self,
        reader: Any,
        report: Callable[[KernelLogReading], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        while not self._ended.is_set():
            try:
                reading = self._batch(reader)
                if reading is None:
                    reader.wait(WAIT_S)
                    continue
            except (OSError, ValueError) as error:
                self.counters["kernel_log_failures"] += 1
                position = Position(self._boot_id, self._last, self._cursor)
                reading = KernelLogReading((), position, problem=f"journald: {error}")
                self._ended.wait(WAIT_S)
            try:
                loop.call_soon_threadsafe(report, reading)
            except RuntimeError:
                return  # the loop has ended; nobody waits any more

    def _batch(self, reader: Any) -> KernelLogReading | None:
        """Return the next entries that may matter; None when none is left to look at."""
        kept: list[Record] = []
        cursor = ""
        for _ in range(BATCH_ENTRIES):
            entry = reader.get_next()
            if not entry:
                break
            cursor = str(entry.get("__CURSOR", ""))
            record = self._taken(entry)
            if record is not None:
                kept.append(record)
        if not cursor:
            return None
        self._cursor = cursor
        return KernelLogReading(tuple(kept), Position(self._boot_id, self._last, cursor))

    def _taken(self, entry: Mapping[str, Any]) -> Record | None:
        self.counters["kernel_log_records"] += 1
        self._last += 1
        # journald keeps what user space wrote to /dev/kmsg under the kernel's transport too.
        if _number(entry.get("SYSLOG_FACILITY"), 0) != 0:
            self.counters["kernel_log_foreign"] += 1
            return None
        text = str(entry.get("MESSAGE", ""))
        if not worth(text):
            return None
        stamp = entry.get("_SOURCE_MONOTONIC_TIMESTAMP", 0)
        return Record(
            sequence=self._last,
            at_us=_microseconds(stamp),
            level=_number(entry.get("PRIORITY"), 6),
            facility=0,
            text=text,
            device=str(entry.get("_KERNEL_DEVICE", "")),
        )


def _number(value: Any, otherwise: int) -> int:
    """Return a field as a number; one that repeats in its entry is a list, and means nothing."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return otherwise


def _microseconds(stamp: Any) -> int:
    """Return microseconds since boot: systemd-python gives a timedelta, an int or a text."""
    total = getattr(stamp, "total_seconds", None)
    try:
        return round(total() * 1e6) if total is not None else int(stamp)
    except (TypeError, ValueError, OverflowError):
        return 0
