"""The fleet's requests for a diagnosis, read strictly, and the reports that go back."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.model import LinkholdError, WireError
from linkhold.mqtt import CODE_FAILURE, CODE_NO_SUBSCRIBER
from linkhold.wire import is_topic_safe, load_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkhold.mqtt import Received

MAX_REQUEST_BYTES = 512
SINCE_S = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "24h": 86400.0}
DEFAULT_SINCE = "1h"
MAX_WAITING = 4
MAX_TRIES = 3
"""Connections on which one report is tried: one that ends them all is given up."""
KEPT_S = 300.0
"""A report that could not be sent for so long is of no use to whoever asked."""
NOT_HEARD = "nobody is subscribed"


class Ignored(LinkholdError):
    """No request: ``kind`` names for the counters and the log what is wrong with it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class DiagnoseRequest:
    """A request that may be served: ``id`` can be a topic level, ``since`` is a key of SINCE_S."""

    id: str
    since: str = DEFAULT_SINCE


def read_request(message: Received) -> DiagnoseRequest:
    """Return the request in a message of ``cmd/diagnose``; raises :class:`Ignored`.

    A retained command would be carried out at each connect, one without expiry whenever a broker
    finds it again; expiry 0 has passed (MQTT v5, 3.3.2.3.3).
    """
    if message.retained:
        raise Ignored("retained", "it is retained")
    if message.expiry_s is None:
        raise Ignored("without expiry", "it has no message expiry")
    if not message.expiry_s:
        raise Ignored("expired", "it has expired")
    try:
        return parse_diagnose(message.payload)
    except WireError as error:
        raise Ignored("malformed", str(error)) from error


def parse_diagnose(payload: bytes) -> DiagnoseRequest:
    """Read ``{"id": "...", "since": "1h"}``; raises :class:`WireError` for anything else.

    ``since`` may be left out. There is no way to name a host, a file or a command.
    """
    if len(payload) > MAX_REQUEST_BYTES:
        raise WireError(f"request of {len(payload)} bytes; at most {MAX_REQUEST_BYTES}")
    document = load_json(payload)
    if not isinstance(document, dict):
        raise WireError("request: no object")
    if not {"id"} <= set(document) <= {"id", "since"}:
        raise WireError("request: allowed are id and since, id is needed")
    identity, since = document["id"], document.get("since", DEFAULT_SINCE)
    if not isinstance(identity, str) or not is_topic_safe(identity):
        raise WireError("request: id is 1 to 64 letters, digits, . _ -, with no . or - at the ends")
    if not isinstance(since, str) or since not in SINCE_S:
        raise WireError(f"request: since is one of {', '.join(SINCE_S)}")
    return DiagnoseRequest(identity, since)


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A document for ``diag/<id>``. ``told`` hears once, in the leg's thread, what became of it.

    It is called with an empty text when a subscriber may have it, else with the reason.
    """

    id: str
    document: Mapping[str, Any]
    told: Callable[[str], None]


class Reports:
    """The reports that wait for the broker; outlives connections. May be used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Report, float]] = deque()
        self._tries = 0

    def put(self, report: Report) -> bool:
        """Queue a report; False when too many wait already."""
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                return False
            self._waiting.append((report, time.monotonic() + KEPT_S))
            return True

    def withdraw(self, report: Report) -> None:
        """Do not send a report that is not on its way yet; ``told`` is not called any more."""
        with self._lock:
            self._waiting = deque(one for one in self._waiting if one[0] is not report)

    def next(self) -> Report | None:
        """Return the report to send now, and count the try; None when none waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    return None
                report, until_s = self._waiting[0]
                self._tries += 1
                if self._tries <= MAX_TRIES and time.monotonic() < until_s:
                    return report
            self.finish(report, "it could not be sent in time")

    def answered(self, report: Report, code: int, text: str) -> None:
        """Take the broker's answer to a report that was sent."""
        if code == CODE_NO_SUBSCRIBER:
            text = NOT_HEARD
        self.finish(report, text if code >= CODE_FAILURE or code == CODE_NO_SUBSCRIBER else "")

    def finish(self, report: Report, reason: str) -> None:
        """Be done with a report, and tell its owner."""
        with self._lock:
            known = any(one is report for one, _ in self._waiting)
            self._waiting = deque(one for one in self._waiting if one[0] is not report)
            self._tries = 0
        if known:
            report.told(reason)
