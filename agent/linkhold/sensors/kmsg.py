"""The kernel's log, read record by record from /dev/kmsg (Documentation/ABI/testing/dev-kmsg).

Reading is by turns of bounded length, so that a flood of lines keeps nothing else waiting, and
each record that is read is looked at once by a quick filter: what may matter is kept, whatever the
flood around it. Records that the kernel overwrote before they were read are counted.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.decide.kernel_log import worth
from linkhold.model import Unavailable
from linkhold.model.kernel_log import KernelLogReading, Position, Record

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

DEVICE = Path("/dev/kmsg")
RECORD_BYTES = 8192
"""CONSOLE_EXT_LOG_MAX: a shorter buffer may fail with EINVAL, and the record is skipped."""
BATCH_RECORDS = 256
BATCH_NS = 5_000_000
SKIP_NS = 200_000_000
"""Far above what a full ring of the kernel takes (a megabyte: some 30 ms)."""
OVERRUNS = 16
KERNEL = 0
"""The facility of the kernel's own records; user space cannot write it (devkmsg_write)."""

_HEAD = re.compile(rb"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]*;([^\n]*)(?:\n|$)")
_DEVICE = re.compile(rb"^ DEVICE=(.*)$", re.MULTILINE)


class KmsgSensor:
    """Follows the kernel's log from a position on.

    Without a position it starts at the log's end: what is in it then happened before anybody
    looked. With one of this boot it goes on behind that record, with one of another boot at the
    log's start: all of this boot is new. ``any_facility`` is for tests: real agents listen to the
    kernel alone.

    Either call :meth:`start` with a running loop, or :meth:`open`, poll :meth:`fileno` for reading
    (level-triggered) and call :meth:`read` at each wake-up.

    ``counters``: kernel_log_records (read), kernel_log_lost (overwritten unread),
    kernel_log_overruns (EPIPE), kernel_log_foreign (not of the kernel), kernel_log_malformed.
    """

    def __init__(
        self,
        boot_id: str,
        position: Position | None = None,
        *,
        path: Path = DEVICE,
        any_facility: bool = False,
    ) -> None:
        self.counters: Counter[str] = Counter(
            kernel_log_records=0, kernel_log_lost=0, kernel_log_overruns=0,
            kernel_log_foreign=0, kernel_log_malformed=0,
        )  # fmt: skip
        self._boot_id = boot_id
        self._path = path
        self._any_facility = any_facility
        self._at_end = position is None
        known = position is not None and position.boot_id == boot_id
        self._last = position.sequence if known and position is not None else -1
        self._fd = -1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._report: Callable[[KernelLogReading], None] = lambda _: None

    @property
    def position(self) -> Position | None:
        """The last record that was taken, None before any; store it once that is dealt with."""
        return Position(self._boot_id, self._last) if self._last >= 0 else None

    def open(self) -> None:
        """Open the log and go to where reading begins. Raises Unavailable with the reason."""
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_SET)
            if self._at_end:
                self._skip()
        except Unavailable:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise Unavailable(f"{self._path}: {error.strerror}") from error

    def _skip(self) -> None:
        """Go to the log's end, and learn the number of its last record.

        Without it a restart on a quiet log would not know where to go on, and miss what came
        meanwhile. A log that grows faster than it is read is left to the kernel.
        """
        until_ns = time.monotonic_ns() + SKIP_NS
        while (data := self._next()) is not None:
            head = _HEAD.match(data)
            if head is not None:
                self._last = int(head[2])
            if time.monotonic_ns() >= until_ns:
                os.lseek(self._fd, 0, os.SEEK_END)
                self._last = -1
                return

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 when closed."""
        return self._fd

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def start(
        self, report: Callable[[KernelLogReading], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Open, and hand each reading to ``report`` on the loop. Raises Unavailable.

        A log that cannot be read any more is reported as a ``problem``, and the sensor stopped.
        """
        self.open()
        try:
            loop.add_reader(self._fd, self._turn)
        except OSError as error:  # epoll takes no file and no /dev/zero
            self.close()
            raise Unavailable(f"{self._path}: is no log of the kernel") from error
        self._report, self._loop = report, loop

    def stop(self) -> None:
        """Follow no more; a second call does nothing."""
        if self._loop is not None:
            self._loop.remove_reader(self._fd)
            self._loop = None
        self.close()

    def _turn(self) -> None:
        try:
            reading = self.read()
        except Unavailable as error:
            self.stop()
            reading = KernelLogReading((), self._here(), problem=str(error))
        if reading is not None:
            self._report(reading)

    def read(self) -> KernelLogReading | None:
        """Take what waits, at most 256 records or 5 ms of it; None when nothing of it matters.

        What is left wakes the caller again. Raises Unavailable when the log cannot be read any
        more; the sensor is to be closed then.
        """
        until_ns = time.monotonic_ns() + BATCH_NS
        kept: list[Record] = []
        lost = self.counters["kernel_log_lost"]
        for count in range(BATCH_RECORDS):
            data = self._next()
            if data is None:
                break
            record = self._taken(data)
            if record is not None:
                kept.append(record)
            # The clock is asked now and then only: it costs as much as a record.
            if count % 64 == 63 and time.monotonic_ns() >= until_ns:  # noqa: PLR2004
                break
        lost = self.counters["kernel_log_lost"] - lost
        if not kept and not lost:
            return None
        return KernelLogReading(tuple(kept), self._here(), lost)

    def _here(self) -> Position:
        return Position(self._boot_id, self._last)

    def _next(self) -> bytes | None:
        """Return the next record; None when none waits.

        EPIPE: records were overwritten before they were read, and the kernel has set the position
        to the oldest that is left (devkmsg_read); the gap in the numbers says how many. A writer
        that is faster than that again and again must not keep us here: the next turn goes on.
        """
        for _ in range(OVERRUNS):
            try:
                data = os.read(self._fd, RECORD_BYTES)
                if not data:  # containers have /dev/null in its place; the log itself has no end
                    raise Unavailable(f"{self._path}: is no log of the kernel")
                return data
            except BlockingIOError:
                return None
            except BrokenPipeError:
                self.counters["kernel_log_overruns"] += 1
            except OSError as error:
                raise Unavailable(f"{self._path}: {error.strerror}") from error
        return None

    def _taken(self, data: bytes) -> Record | None:
        """Count one record; return it if it may matter and is of the kernel."""
        self.counters["kernel_log_records"] += 1
        head = _HEAD.match(data)
        if head is None:
            self.counters["kernel_log_malformed"] += 1
            return None
        sequence = int(head[2])
        if sequence <= self._last:
            return None  # read before this sensor was restarted
        if self._last >= 0:
            self.counters["kernel_log_lost"] += sequence - self._last - 1
        self._last = sequence
        if int(head[1]) >> 3 != KERNEL and not self._any_facility:
            self.counters["kernel_log_foreign"] += 1
            return None
        text = head[4].decode("utf-8", "backslashreplace")
        return _record(head, text, data) if worth(text) else None


def parse(data: bytes) -> Record | None:
    """Return what is in one raw record, None when it is none."""
    head = _HEAD.match(data)
    return (
        None if head is None else _record(head, head[4].decode("utf-8", "backslashreplace"), data)
    )


def _record(head: re.Match[bytes], text: str, data: bytes) -> Record:
    priority = int(head[1])
    device = _DEVICE.search(data, head.end())
    return Record(
        sequence=int(head[2]),
        at_us=int(head[3]),
        level=priority & 7,
        facility=priority >> 3,
        text=text,
        device="" if device is None else device[1].decode("utf-8", "backslashreplace"),
    )
