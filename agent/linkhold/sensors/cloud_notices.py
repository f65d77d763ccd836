"""Asks the metadata service of a cloud for notices, each endpoint at its documented interval.

Nothing is acknowledged and nothing is written: an acknowledged event of Azure starts at once, for
every machine that it names.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.decide.notices import Answer, Polled, judge
from linkhold.decide.notices.azure import machine
from linkhold.decide.notices.services import LONG_POLL_S, TOKEN_TTL_S, wait_s
from linkhold.decide.notices.values import Known
from linkhold.sensors.cloud_http import Again, Connection
from linkhold.sensors.pace import next_in_s, pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.notices.services import Endpoint, Service
    from linkhold.sensors.reach.http_message import Response

HTTP_PORT = 80
TOKEN_TIMEOUT_S = 2.0
MAX_NAME_CHARS = 256
NAME_RETRY_S = 10.0
FAILURES = (OSError, EOFError, ValueError, asyncio.TimeoutError)


@dataclass(slots=True)
class _Token:
    """A session token, made when needed; services that know none are asked without."""

    service: Service
    connection: Connection
    value: str = ""
    made_s: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def headers(self) -> dict[str, str]:
        """Return the headers of a request. Raises what a connection raises."""
        headers = dict(self.service.headers)
        if not self.service.session_path:
            return headers
        async with self.lock:
            if time.monotonic() - self.made_s >= TOKEN_TTL_S / 2:
                await self._make()
        if self.value:
            headers[self.service.session_header] = self.value
        return headers

    async def _make(self) -> None:
        ttl = {self.service.session_ttl_header: str(TOKEN_TTL_S)}
        reply = await self.connection.ask("PUT", self.service.session_path, ttl, TOKEN_TIMEOUT_S)
        plain = reply.body.strip()
        good = reply.status == 200 and plain.isprintable() and plain and "<" not in plain  # noqa: PLR2004
        self.value = plain if good else ""
        self.made_s = time.monotonic() if good else float("-inf")

    @property
    def good_until_s(self) -> float:
        """When a new one is to be made, by the monotonic clock."""
        return self.made_s + TOKEN_TTL_S / 2 if self.service.session_path else float("inf")

    def drop(self, used: str) -> None:
        """Forget a token that was refused, unless another request has renewed it meanwhile."""
        if used == self.value:
            self.value, self.made_s = "", float("-inf")


class CloudNotices:
    """Polls one service for ever; cancel :meth:`run` to stop.

    ``address`` and ``port`` are for tests. ``counters``: cloud_polls, cloud_odd (answers that say
    nothing believable), cloud_tokens (refused ones).
    """

    def __init__(self, service: Service, *, address: str = "", port: int = HTTP_PORT) -> None:
        self.counters: Counter[str] = Counter(cloud_polls=0, cloud_odd=0, cloud_tokens=0)
        self._service = service
        self._where = (address or service.address, port, service.host)
        self._this_vm = ""
        self._spot: bool | None = None
        self._name_due_s = float("-inf")
        self._heard = False

    async def run(self, report: Callable[[Polled], None]) -> None:
        """Poll every endpoint; ``report`` gets each judged answer, also the odd ones.

        An answer that announces nothing, just as the one before it, is neither judged nor reported
        again: that is nearly all of them, for months.
        """
        token = _Token(self._service, Connection(*self._where))
        polls = [self._poll(one, token, report) for one in self._service.endpoints]
        tasks = [asyncio.ensure_future(poll) for poll in polls]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            token.connection.close()

    async def _poll(
        self, endpoint: Endpoint, token: _Token, report: Callable[[Polled], None]
    ) -> None:
        connection, odd, etag, first = Connection(*self._where), 0, "", True
        calm: _Same | None = None
        pause_s = 0.0
        try:
            while True:
                other = None
                if calm is None or endpoint.waits or not self._knows_machine:
                    await pause(pause_s)
                else:
                    other = await self._repeat(endpoint, token, connection, pause_s)
                reply, used = other or await self._ask(
                    endpoint, token, connection, etag, first=first
                )
                asked_ns, refused = int(connection.asked_s * 1e9), False
                if reply is not None and _same(reply) == calm:
                    self.counters["cloud_polls"] += 1
                else:
                    polled = self._judged(endpoint, reply, asked_ns)
                    refused = polled.judged.token_refused
                    odd = odd + 1 if polled.judged.known is not Known.YES else 0
                    self._count(polled, token, used)
                    report(polled)
                    announces = odd or polled.judged.announced
                    calm = None if reply is None or announces else _same(reply)
                if reply is not None:
                    first = False
                    etag = _etag(reply) if not odd else etag
                pause_s = wait_s(endpoint, odd, token_refused=refused, spot=self._spot)
                if endpoint.waits and not etag:
                    pause_s = max(pause_s, endpoint.every_s)
        finally:
            connection.close()

    async def _ask(
        self, endpoint: Endpoint, token: _Token, connection: Connection, etag: str, *, first: bool
    ) -> tuple[Response | None, str]:
        """Return the answer, None for none, and the token that was shown."""
        timeout_s = endpoint.first_timeout_s if first else endpoint.timeout_s
        path = endpoint.path
        if endpoint.waits and etag:
            path += f"?wait_for_change=true&timeout_sec={LONG_POLL_S}&last_etag={etag}"
            timeout_s += LONG_POLL_S
        used = ""
        try:
            headers = await token.headers()
            used = headers.get(self._service.session_header, "")
            await self._learn_machine(connection, headers)
            return await connection.ask("GET", path, headers, timeout_s), used
        except FAILURES:
            return None, used

    async def _repeat(
        self, endpoint: Endpoint, token: _Token, connection: Connection, pause_s: float
    ) -> tuple[Response | None, str] | None:
        """Ask on while nothing changes. Return as :meth:`_ask` does, or None to ask anew."""
        used = ""
        try:
            headers = await token.headers()
            used = headers.get(self._service.session_header, "")
            again = Again(
                endpoint.timeout_s, token.good_until_s, lambda: next_in_s(pause_s), self._count_same
            )
            response = await connection.repeat(endpoint.path, headers, again)
        except FAILURES:
            return None, used
        return None if response is None else (response, used)

    def _count_same(self) -> None:
        self.counters["cloud_polls"] += 1

    @property
    def _knows_machine(self) -> bool:
        return bool(self._this_vm or not self._service.machine_path)

    async def _learn_machine(self, connection: Connection, headers: dict[str, str]) -> None:
        """Learn this machine's name; until it is known every event counts as ours."""
        now_s = time.monotonic()
        path = self._service.machine_path
        if self._knows_machine or now_s < self._name_due_s:
            return
        self._name_due_s = now_s + NAME_RETRY_S
        try:
            reply = await connection.ask("GET", path, headers, TOKEN_TIMEOUT_S)
        except FAILURES:
            return
        if reply.status == 200:  # noqa: PLR2004
            self._this_vm, self._spot = machine(reply.body)

    def _judged(self, endpoint: Endpoint, reply: Response | None, asked_ns: int) -> Polled:
        url = self._service.url(endpoint)
        if reply is None:
            answer = Answer(url, None, heard_before=self._heard)
        else:
            answer = Answer(url, reply.status, reply.body, reply.headers, self._this_vm)
        judged = judge(self._service.vendor, answer)
        self._heard = self._heard or judged.known is Known.YES
        return Polled(endpoint.name, judged, asked_ns)

    def _count(self, polled: Polled, token: _Token, used: str) -> None:
        self.counters["cloud_polls"] += 1
        self.counters["cloud_odd"] += polled.judged.known is not Known.YES
        if polled.judged.token_refused:
            self.counters["cloud_tokens"] += 1
            token.drop(used)


_Same = tuple[int, str, str]


def _same(reply: Response) -> _Same:
    """Return all of an answer that can change what it means (Google's has to show its header)."""
    return reply.status, reply.body, reply.headers.get("metadata-flavor", "")


def _etag(reply: Response) -> str:
    """Return Google's etag; one that does not fit into a URL is none."""
    etag = reply.headers.get("etag", "")
    return etag if etag.isalnum() and len(etag) <= MAX_NAME_CHARS else ""
