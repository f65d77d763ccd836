"""Where alerts go: Alertmanager's API v2, or Apprise.

http.client of the standard library does the former: one POST on a connection that is kept, with a
deadline, is all that is needed, and every HTTP package costs megabytes and a dependency.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections import Counter
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from linkhold.config.access import password_of
from linkhold.model import BrokerError, Unavailable
from linkhold.model.probes import without_query
from linkhold.relay.decide.texts import printable
from linkhold.wire import dumps, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from linkhold.config.relay import AlertmanagerSettings
    from linkhold.model import Moment
    from linkhold.relay.decide.values import Labels, Page

TIMEOUT_S = 5.0
BATCH = 64
"""Alerts in one POST, as Prometheus sends them."""
MOST_ANSWER_BYTES = 1 << 24
SKEW_S = 30.0
"""Clocks that differ by more are allowed for: an alert lasts for some minutes only."""
REST_NS = 10 * 10**9
"""A member of a cluster that did not answer is left alone for so long."""
DEADLINE_S = 10.0
"""Of a whole question and answer: one that drips would outlive a timeout of the socket."""
ERROR_FROM = 300
REFUSALS = frozenset({400, 413, 422})
"""Alertmanager's own word against an alert, in JSON. Whatever else answers no is something before
it, or a wrong address: then nothing has been taken, and everything has to wait."""
BROKEN_FROM = 500
MOVED = frozenset({301, 302, 303, 307, 308})


class Sink(Protocol):
    """Takes alerts. ``counters`` says how many were sent, refused and failed.

    ``refusal`` tells of the last alert that will never be taken, and why; empty without one.
    """

    counters: Counter[str]
    refusal: str

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:
        """Hand over alerts; raises :class:`Unavailable` when nobody took them."""

    def repost(self, pages: Sequence[Page], now: Moment, ends_s: float, *, whole: bool) -> None:
        """Hand over everything that fires; ``whole``: whatever else was told is over."""

    def still_firing(self) -> frozenset[Labels] | None:
        """Return what the sink itself holds for firing, None when it does not say."""

    def close(self) -> None:
        """Let go of connections."""


class Refused(Exception):
    """The sink takes everything but this: asking again would not help."""


def alert_document(page: Page, now: Moment, ends_s: float, ahead_s: float = 0.0) -> dict[str, Any]:
    """Return an alert as Alertmanager wants it, whose clock is ``ahead_s`` before ours.

    Its beginning is never after its end, which would be refused, nor before 1970: a node's clock
    may be wrong.
    """
    ends = max(0.0, ahead_s + (now.wall_s + ends_s if page.ends_s is None else page.ends_s))
    return {
        "labels": dict(page.labels),
        "annotations": dict(page.annotations),
        "startsAt": rfc3339(max(0.0, min(page.starts_s, now.wall_s + ahead_s, ends))),
        "endsAt": rfc3339(ends),
    }


class Alertmanagers:
    """Every member of a cluster: accepted is what one of them took; the others get the repost."""

    def __init__(self, settings: Sequence[AlertmanagerSettings]) -> None:
        self._members = [_Alertmanager(one) for one in settings]
        self._rests_until: dict[_Alertmanager, int] = {}
        self.counters: Counter[str] = Counter()
        self.refusal = ""

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:
        """Post alerts to all; raises :class:`Unavailable` when none took them."""
        for start in range(0, len(pages), BATCH):
            self._post_batch(pages[start : start + BATCH], now, ends_s)

    def repost(
        self,
        pages: Sequence[Page],
        now: Moment,
        ends_s: float,
        *,
        whole: bool,  # noqa: ARG002 -- what is posted no more ends by itself
    ) -> None:
        """Post alerts once more: Alertmanager forgets what it is not told again."""
        self.post(pages, now, ends_s)

    def _post_batch(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:
        awake = [one for one in self._members if now.mono_ns >= self._rests_until.get(one, 0)]
        problems: dict[_Alertmanager, str] = {}
        for member in (*awake, *(one for one in self._members if one not in awake)):
            if member not in awake and len(problems) < len(awake):
                return  # one has taken it: who rests gets the repost
            try:
                self._post_in_time(member, pages, now, ends_s)
                self._rests_until.pop(member, None)
            except Unavailable as error:
                self.counters["posts_failed"] += 1
                problems[member] = str(error)
                if len(self._members) > 1:  # a dead one must not hold up what others take
                    self._rests_until[member] = now.mono_ns + REST_NS
        if len(problems) == len(self._members):
            raise Unavailable("; ".join(problems[member] for member in self._members))

    def _post_in_time(
        self, member: _Alertmanager, pages: Sequence[Page], now: Moment, ends_s: float
    ) -> None:
        """Post in the time of the member's clock, once more when its answer shows another one.

        An alert that has ended by its clock would be taken, and nobody told.
        """
        for _ in range(2):
            ahead_s = member.ahead_s
            documents = [alert_document(page, now, ends_s, ahead_s) for page in pages]
            self._post_to(member, documents)
            if abs(member.ahead_s - ahead_s) <= SKEW_S:
                return

    def _post_to(self, member: _Alertmanager, batch: list[dict[str, Any]]) -> None:
        """Post a batch; where it is refused, one by one, so that only the bad one is lost."""
        try:
            member.post(batch)
            self.counters["alerts_posted"] += len(batch)
        except Refused as error:
            if len(batch) == 1:
                self.counters["alerts_refused"] += 1
                self.refusal = f"{_named(batch[0])}: {error}"
                return
            for one in batch:
                self._post_to(member, [one])

    def still_firing(self) -> frozenset[Labels] | None:
        """Return the labels of all alerts that a member holds for active; None without one."""
        found: set[Labels] = set()
        asked = 0
        for member in self._members:
            try:
                found |= member.active()
                asked += 1
            except (Unavailable, Refused):
                self.counters["posts_failed"] += 1
        return frozenset(found) if asked else None

    def close(self) -> None:
        """Close all connections."""
        for member in self._members:
            member.close()


class _Alertmanager:
    def __init__(self, settings: AlertmanagerSettings) -> None:
        split = urlsplit(settings.url)
        self._url = without_query(settings.url)  # as it is told to people
        self._settings = settings
        self._secure = split.scheme == "https"
        self._host, self._port = split.hostname or "", split.port
        self._path = split.path.rstrip("/") + "/api/v2/alerts"
        self._connection: http.client.HTTPConnection | None = None
        self.ahead_s = 0.0

    def post(self, batch: list[dict[str, Any]]) -> None:
        self._ask("POST", self._path, dumps(batch))

    def active(self) -> set[Labels]:
        answer = self._ask("GET", f"{self._path}?active=true&inhibited=true&silenced=true", None)
        try:
            alerts = json.loads(answer)
            return {tuple(sorted(alert["labels"].items())) for alert in alerts}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"{self._url} answers what is no list of alerts") from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        """Ask once more on a new connection when a kept one has died meanwhile."""
        kept = self._connection is not None
        try:
            return self._try(method, path, body)
        except (OSError, http.client.HTTPException, BrokerError) as error:
            self.close()
            if not kept:
                raise Unavailable(f"{self._url}: {_reason(error)}") from error
        try:
            return self._try(method, path, body)
        except (OSError, http.client.HTTPException, BrokerError) as error:
            self.close()
            raise Unavailable(f"{self._url}: {_reason(error)}") from error

    def _try(self, method: str, path: str, body: bytes | None) -> bytes:
        if self._connection is None:
            self._connection = self._connect()
        headers = self._headers()
        with _at_most(DEADLINE_S, self._connection):
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            answer = response.read(MOST_ANSWER_BYTES)
        if not response.isclosed():
            self.close()
        self._note_clock(response.headers.get("Date", ""))
        if response.status in REFUSALS and "json" in response.headers.get("Content-Type", ""):
            raise Refused(printable(answer[:200].decode("utf-8", "replace")))
        if response.status >= ERROR_FROM:
            raise Unavailable(f"{self._url} answers {_answered(response)}")
        return answer

    def _note_clock(self, date: str) -> None:
        """Take in the time that an answer tells (RFC 9110, 6.6.1): small differences are delay."""
        try:
            ahead_s = parsedate_to_datetime(date).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return
        self.ahead_s = ahead_s if abs(ahead_s) > SKEW_S else 0.0

    def _connect(self) -> http.client.HTTPConnection:
        """Return a connection that is open already, so that its socket can be cut."""
        connection = self._unopened()
        connection.connect()
        return connection

    def _unopened(self) -> http.client.HTTPConnection:
        if not self._secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_S)
        tls = self._settings.tls
        context = ssl.create_default_context(cafile=tls.ca or None if tls else None)
        if tls is not None and tls.cert:
            context.load_cert_chain(tls.cert, tls.key or None)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=TIMEOUT_S, context=context
        )

    def _headers(self) -> Mapping[str, str]:
        headers = {"Content-Type": "application/json"}
        if self._settings.username:
            login = f"{self._settings.username}:{password_of(self._settings) or ''}"
            headers["Authorization"] = "Basic " + b64encode(login.encode()).decode()
        return headers


@contextlib.contextmanager
def _at_most(seconds: float, connection: http.client.HTTPConnection) -> Iterator[None]:
    """Cut the connection when what is done with it lasts longer."""

    def cut() -> None:
        with contextlib.suppress(OSError, AttributeError):  # it is closed already
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _answered(response: http.client.HTTPResponse) -> str:
    """Return an answer that is no yes in words, and what to do about it."""
    told = printable(f"{response.status} {response.reason}")
    if response.status in MOVED:
        place = printable(response.headers.get("Location", "nowhere"))
        return f"{told}: it is at {place} now; name that as url"
    if response.status in {401, 403}:
        return f"{told}: it wants a login; see username and password_file"
    if response.status < BROKEN_FROM:
        return f"{told}: is that Alertmanager's address? expected API v2 below it"
    return told


def _named(document: Mapping[str, Any]) -> str:
    labels = document["labels"]
    return " ".join(filter(None, (labels.get("alertname"), labels.get("node"))))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
