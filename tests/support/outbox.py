"""Events for the tests of the outbox, and an outbox that fails on command."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from linkhold.model import Event, Identity, Moment, Severity
from linkhold.store.outbox import Entry, Outbox, entry_of
from linkhold.store.outbox_file import OpenedStore, open_store

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from linkhold.config.settings import OutboxSettings
    from linkhold.decide.readings import Reading

IDENTITY = Identity("lab", "n1", "machine", "boot", "s1", Moment(0, 1_700_000_000.0))


def entry(
    seq: int,
    event_type: str = "link.down",
    subject: str = "eth0",
    severity: Severity = Severity.WARNING,
    *,
    wall_s: float | None = None,
    session: str = "s1",
    **data: Any,
) -> Entry:
    """Return an event as the agent records it, one second of wall clock after the one before."""
    at = Moment(seq, 1_700_000_000.0 + seq if wall_s is None else wall_s)
    identity = Identity("lab", "n1", "machine", "boot", session, IDENTITY.started)
    return entry_of(identity, Event(seq, event_type, subject, severity, at, data))


def entries(first: int, last: int, **how: Any) -> list[Entry]:
    """Return events with the sequence numbers ``first`` to ``last``."""
    return [entry(seq, **how) for seq in range(first, last + 1)]


class Reports:
    """Collects readings; may be called from any thread."""

    def __init__(self) -> None:
        self.all: list[Reading] = []

    def __call__(self, reading: Reading) -> None:
        self.all.append(reading)

    def of(self, kind: type) -> list[Any]:
        """Return the readings of one class, in order."""
        return [reading for reading in self.all if isinstance(reading, kind)]


class BadDisk:
    """An opener whose outboxes raise ``error`` on writing while it is set, or hang."""

    def __init__(self, error: sqlite3.Error | None = None) -> None:
        self.error = error
        self.errors_left = 1_000_000
        self.answers = threading.Event()
        self.answers.set()

    def __call__(self, state_dir: Path, settings: OutboxSettings) -> OpenedStore:
        """Open the real outbox with the fault put in."""
        self.answers.wait()
        opened = open_store(state_dir, settings)
        if opened.outbox is not None:
            self._spoil(opened.outbox)
        return opened

    def _spoil(self, outbox: Outbox) -> None:
        write = outbox.write

        def spoilt(events: Sequence[Any], baseline: bytes | None, marks: Sequence[Any] = ()) -> Any:
            self.answers.wait()
            if self.error is not None and self.errors_left > 0:
                self.errors_left -= 1
                raise self.error
            return write(events, baseline, marks)

        outbox.write = spoilt  # type: ignore[method-assign]
