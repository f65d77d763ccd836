"""The fleet's requests for events once more: read strictly, served one at a time."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

from linkhold.model import WireError
from linkhold.store.outbox import ReplayRequest
from linkhold.wire import from_rfc3339, load_json

if TYPE_CHECKING:
    from linkhold.mqtt import Received

MAX_REQUEST_BYTES = 4096
MAX_EVENTS = 1000
MAX_WAITING = 4
MAX_TRIES = 3
"""Connections on which one request is tried: one that ends them all is given up."""
_MAX_SEQ = 1 << 53
_TEXT = re.compile(r"[!-~]{1,64}")
_RANGE = {"request", "session", "from_seq", "to_seq"}
_SINCE = {"request", "since"}


def parse_replay(payload: bytes) -> ReplayRequest:
    """Read a request. Raises :class:`WireError` for whatever is not exactly one.

    Either ``{"request", "session", "from_seq", "to_seq"}`` or ``{"request", "since"}``, each
    with an optional ``limit``.
    """
    if len(payload) > MAX_REQUEST_BYTES:
        raise WireError(f"request of {len(payload)} bytes; at most {MAX_REQUEST_BYTES}")
    document = load_json(payload)
    if not isinstance(document, dict):
        raise WireError("request: no object")
    names = set(document) - {"limit"}
    limit = _number(document.get("limit", MAX_EVENTS), 1, MAX_EVENTS)
    request = _text(document.get("request"))
    if names == _SINCE:
        since = from_rfc3339(_text(document["since"]))
        return ReplayRequest(request, since_wall_s=since, limit=limit)
    if names != _RANGE:
        raise WireError(f"request: unexpected or missing keys in {sorted(names)}")
    first = _number(document["from_seq"], 1, _MAX_SEQ)
    last = _number(document["to_seq"], first, _MAX_SEQ)
    return ReplayRequest(request, _text(document["session"]), first, last, limit=limit)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not _TEXT.fullmatch(value):
        raise WireError("request: expected 1 to 64 printable characters")
    return value


def _number(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise WireError(f"request: expected a number from {least} to {most}")
    return value


class Requests:
    """The request being served and those behind it; outlives connections.

    ``ignored`` counts what was no request, ``dropped`` what found the queue full.
    """

    def __init__(self) -> None:
        self.active: ReplayRequest | None = None
        self.ignored = 0
        self.dropped = 0
        self._tries = 0
        self._waiting: deque[ReplayRequest] = deque()

    def received(self, message: Received) -> None:
        """Take a message of the command topic; anything that is no live request is ignored."""
        if message.retained or not message.expiry_s:
            self.ignored += 1
            return
        try:
            request = parse_replay(message.payload)
        except WireError:
            self.ignored += 1
            return
        known = [one.request for one in (self.active, *self._waiting) if one]
        if request.request in known:
            self.ignored += 1  # the broker may deliver a message twice
        elif self.active is None:
            self.active, self._tries = request, 0
        elif len(self._waiting) < MAX_WAITING:
            self._waiting.append(request)
        else:
            self.dropped += 1

    def begin(self) -> ReplayRequest | None:
        """Return the request to serve on a new connection, or None; gives up after three."""
        self._tries += 1
        if self.active is not None and self._tries > MAX_TRIES:
            self.dropped += 1
            self.finish()
            self._tries = 1
        return self.active

    def finish(self) -> None:
        """Go on with the next request."""
        self.active = self._waiting.popleft() if self._waiting else None
        self._tries = 0
