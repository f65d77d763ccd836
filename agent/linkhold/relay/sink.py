"""Where alerts go: Alertmanager's API v2, or Apprise.

http.client of the standard library does the former: one POST on a connection that is kept, with a
deadline, is all that is needed, and every HTTP package costs megabytes and a dependency.
"""

from __future__ import annotations

import http.client
import json
import ssl
from base64 import b64encode
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from linkhold.config.access import password_of
from linkhold.model import BrokerError, Unavailable
from linkhold.wire import dumps, rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkhold.config.relay import AlertmanagerSettings
    from linkhold.model import Moment
    from linkhold.relay.decide.values import Labels, Page

TIMEOUT_S = 5.0
BATCH = 64
"""Alerts in one POST, as Prometheus sends them."""
MOST_ANSWER_BYTES = 1 << 24
REST_NS = 10 * 10**9
"""A member of a cluster that did not answer is left alone for so long."""
ERROR_CODE, REFUSED_FROM, BROKEN_FROM = 300, 400, 500


class Sink(Protocol):
    """Takes alerts. ``counters`` says how many were sent, refused and failed."""

    counters: Counter[str]

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:
        """Hand over alerts; raises :class:`Unavailable` when nobody took them."""

    def still_firing(self) -> frozenset[Labels] | None:
        """Return what the sink itself holds for firing, None when it does not say."""

    def close(self) -> None:
        """Let go of connections."""


class Refused(Exception):
    """The sink takes everything but this: asking again would not help."""


def alert_document(page: Page, now: Moment, ends_s: float) -> dict[str, Any]:
    """Return an alert as Alertmanager wants it.

    Its beginning is never after its end, which would be refused: a node's clock may be wrong.
    """
    ends = now.wall_s + ends_s if page.ends_s is None else page.ends_s
    return {
        "labels": dict(page.labels),
        "annotations": dict(page.annotations),
        "startsAt": rfc3339(min(page.starts_s, now.wall_s, ends)),
        "endsAt": rfc3339(ends),
    }


class Alertmanagers:
    """Every member of a cluster: accepted is what one of them took; the others get the repost."""

    def __init__(self, settings: Sequence[AlertmanagerSettings]) -> None:
        self._members = [_Alertmanager(one) for one in settings]
        self._rests_until: dict[_Alertmanager, tuple[int, str]] = {}
        self.counters: Counter[str] = Counter()

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:
        """Post alerts to all; raises :class:`Unavailable` when none took them."""
        documents = [alert_document(page, now, ends_s) for page in pages]
        for start in range(0, len(documents), BATCH):
            self._post_batch(documents[start : start + BATCH], now)

    def _post_batch(self, batch: list[dict[str, Any]], now: Moment) -> None:
        problems = []
        for member in self._members:
            until_ns, why = self._rests_until.get(member, (0, ""))
            if now.mono_ns < until_ns:
                problems.append(why)
                continue
            try:
                self._post_to(member, batch)
            except Unavailable as error:
                self.counters["posts_failed"] += 1
                problems.append(str(error))
                if len(self._members) > 1:  # a dead one must not hold up what others take
                    self._rests_until[member] = (now.mono_ns + REST_NS, str(error))
        if len(problems) == len(self._members):
            raise Unavailable("; ".join(problems))

    def _post_to(self, member: _Alertmanager, batch: list[dict[str, Any]]) -> None:
        """Post a batch; where it is refused, one by one, so that only the bad one is lost."""
        try:
            member.post(batch)
            self.counters["alerts_posted"] += len(batch)
        except Refused:
            if len(batch) == 1:
                self.counters["alerts_refused"] += 1
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
            except Unavailable:
                self.counters["posts_failed"] += 1
        return frozenset(found) if asked else None

    def close(self) -> None:
        """Close all connections."""
        for member in self._members:
            member.close()


class _Alertmanager:
    def __init__(self, settings: AlertmanagerSettings) -> None:
        split = urlsplit(settings.url)
        self._url = settings.url
        self._settings = settings
        self._secure = split.scheme == "https"
        self._host, self._port = split.hostname or "", split.port
        self._path = split.path.rstrip("/") + "/api/v2/alerts"
        self._connection: http.client.HTTPConnection | None = None

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
        self._connection.request(method, path, body, self._headers())
        response = self._connection.getresponse()
        answer = response.read(MOST_ANSWER_BYTES)
        if not response.isclosed():
            self.close()
        if REFUSED_FROM <= response.status < BROKEN_FROM:
            raise Refused(answer[:200].decode("utf-8", "replace"))
        if response.status >= ERROR_CODE:
            raise Unavailable(f"{self._url} answers {response.status} {response.reason}")
        return answer

    def _connect(self) -> http.client.HTTPConnection:
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


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
