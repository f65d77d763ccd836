"""The agent's log: one line an event on standard error, never waiting for the reader.

A terminal or pipe that does not take lines must not stop the loop: lines go through a bounded
queue to a thread, and what does not fit is dropped and counted.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import queue
import sys
from typing import TYPE_CHECKING, Any

from linkhold.model import Severity
from linkhold.wire import event_line
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    from linkhold.model import Event

log = logging.getLogger("linkhold.agent")

QUEUED_LINES = 1000
CLOSE_S = 0.3
LEVELS = {
    Severity.INFO: logging.INFO,
    Severity.WARNING: logging.WARNING,
    Severity.CRITICAL: logging.CRITICAL,
}
PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6}
"""syslog priorities, which systemd reads from ``<n>`` at the start of a line (sd-daemon(3))."""


class _DroppingQueue(logging.handlers.QueueHandler):
    dropped = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Leave formatting to the thread: what is logged here is frozen."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Lines(logging.Formatter):
    def __init__(self, *, for_journal: bool) -> None:
        form = "%(message)s" if for_journal else "%(asctime)s %(levelname)-8s %(message)s"
        super().__init__(form)
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        text = one_line(super().format(record))
        if self._for_journal:
            return f"<{PRIORITIES.get(record.levelno, 7)}>{text}"
        return text


class AgentLog:
    """Sets the logger up and takes it down again."""

    def __init__(self) -> None:
        lines: queue.Queue[logging.LogRecord] = queue.Queue(QUEUED_LINES)
        self._handler = _DroppingQueue(lines)
        output = logging.StreamHandler(sys.stderr)
        output.setFormatter(_Lines(for_journal="JOURNAL_STREAM" in os.environ))
        self._listener = logging.handlers.QueueListener(lines, output)
        self._listener.start()
        # The thread of QueueListener is a daemon: a reader that hangs does not keep us alive.
        log.addHandler(self._handler)
        log.setLevel(logging.INFO)
        log.propagate = False

    def close(self) -> bool:
        """Write what waits, for at most a moment; False when nobody takes it.

        The interpreter cannot end in order then: it would wait for the writing thread's locks.
        """
        log.removeHandler(self._handler)
        thread = self._listener._thread  # noqa: SLF001 - stop() waits without bound
        if thread is None:
            return True
        with contextlib.suppress(queue.Full):
            self._listener.enqueue_sentinel()
        thread.join(CLOSE_S)
        return not thread.is_alive()


def dropped_lines() -> int:
    """Return how many lines were dropped because nobody took them."""
    return sum(h.dropped for h in log.handlers if isinstance(h, _DroppingQueue))


class _Line:
    """An event that becomes text when it is written, in the log's own thread."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def __str__(self) -> str:
        return event_line(self._event.type, self._event.subject, self._event.data)


def log_surprise(_loop: object, context: dict[str, Any]) -> None:
    """Log what the event loop could not hand to anybody."""
    error = context.get("exception")
    log.error("%s: %s: %s", context.get("message"), type(error).__name__, error)


def log_event(event: Event) -> None:
    """Log an event at the level of its severity, without looking for the caller: it is known."""
    level = LEVELS[event.severity]
    if log.isEnabledFor(level):
        log.handle(log.makeRecord(log.name, level, "", 0, "%s", (_Line(event),), None))
