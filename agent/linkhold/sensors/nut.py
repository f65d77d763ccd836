"""UPSes by Network UPS Tools: a client of upsd (NUT docs/net-protocol.txt), by polling.

upsd pushes nothing. One connection is kept. At each poll the status of each UPS is asked; every
variable is listed when the status is another one, while it is not calm, and every half minute.
Nothing is ever written to a UPS. Every wait has a deadline; a server that fails is tried again,
ever slower, and what it cannot tell is reported as an error of each UPS.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import re
import socket
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from linkhold.deadlines import within
from linkhold.model.power_sources import UpsReport
from linkhold.sensors.pace import pause

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterator

MAX_LINE_BYTES = 4096
LIST_S = 30.0
MAX_LIST_LINES = 1000
"""A UPS has some fifty variables; a server that sends more than this is none."""
RETRY_MAX_S = 15.0

_VAR = re.compile(r'VAR (\S+) (\S+) "(.*)"')
_UPS = re.compile(r"UPS (\S+)")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class NutServer:
    """One upsd and how to speak to it.

    ``upses``: which of its UPSes feed this node; empty means all. ``tls``: STARTTLS with this
    context; without it everything, also a password, goes in the clear. ``login``: tell upsd that
    this machine hangs on its (first) UPS, so that the primary waits for it at a shutdown; upsd
    wants a user and a password for that.
    """

    host: str = "127.0.0.1"
    port: int = 3493
    upses: tuple[str, ...] = ()
    user: str = ""
    password: str = field(default="", repr=False)
    login: bool = False
    tls: ssl.SSLContext | None = None
    poll_s: float = 3.0
    timeout_s: float = 5.0


class _Refused(Exception):
    """upsd answered ``ERR``; the text is the word after it."""


class NutSensor:
    """Polls one upsd for ever; cancel :meth:`run` to stop.

    ``in_thread`` runs a call that may hang: the lookup of a name.
    ``counters``: nut_polls, nut_failures (polls that ended the connection), nut_connects.
    """

    def __init__(
        self,
        server: NutServer,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]] = asyncio.to_thread,
    ) -> None:
        self._in_thread = in_thread
        self.counters: Counter[str] = Counter(nut_polls=0, nut_failures=0, nut_connects=0)
        self._server = server
        self._known = server.upses
        self._listed: dict[str, tuple[UpsReport, float]] = {}

    async def run(self, report: Callable[[UpsReport], None]) -> None:
        """Connect, poll and connect again; ``report`` gets each UPS at each poll."""
        failures = 0
        while True:
            lines = _Lines(self._server.timeout_s)
            self._listed.clear()
            try:
                await self._connect(lines)
                while True:
                    await self._poll(lines, report)
                    failures = 0
                    await pause(self._server.poll_s)
            except _Refused as refused:
                self._fail(report, str(refused))
            except (OSError, asyncio.TimeoutError, EOFError, ValueError) as error:
                self._fail(report, self._reason(error))
            finally:
                lines.close()
            failures += 1
            await asyncio.sleep(_retry_s(failures))

    async def _connect(self, lines: _Lines) -> None:
        server = self._server
        look_up = partial(socket.getaddrinfo, server.host, server.port, type=socket.SOCK_STREAM)
        found = await within(self._in_thread(look_up), server.timeout_s)
        await lines.connect([(str(at[0]), int(at[1])) for *_, at in found])
        self.counters["nut_connects"] += 1
        if server.tls is not None:
            await lines.ask("STARTTLS")
            await lines.start_tls(server.tls, server.host)
        if server.user:
            await lines.ask(f"USERNAME {server.user}")
            await lines.ask(f"PASSWORD {server.password}")
        if not server.upses:
            listed = await lines.list("UPS")
            self._known = tuple(found[1] for line in listed if (found := _UPS.match(line)))
        if server.login and self._known:
            await lines.ask(f"LOGIN {self._known[0]}")

    async def _poll(self, lines: _Lines, report: Callable[[UpsReport], None]) -> None:
        self.counters["nut_polls"] += 1
        for ups in self._known:
            try:
                report(await self._ask(ups, lines))
            except _Refused as refused:
                self._listed.pop(ups, None)
                report(UpsReport(ups, error=str(refused)))

    async def _ask(self, ups: str, lines: _Lines) -> UpsReport:
        """Return what a UPS tells. A calm one tells all its fifty variables only now and then."""
        known, listed_s = self._listed.get(ups, (None, 0.0))
        if known is not None and _calm(known) and time.monotonic() - listed_s < LIST_S:
            found = _VAR.fullmatch(await lines.ask(f"GET VAR {ups} ups.status"))
            if found is not None and _plain(found[3]) == known.status:
                return known
        told = _report(ups, await lines.list(f"VAR {ups}"))
        self._listed[ups] = told, time.monotonic()
        return told

    def _fail(self, report: Callable[[UpsReport], None], reason: str) -> None:
        self.counters["nut_failures"] += 1
        for ups in self._known:
            report(UpsReport(ups, error=reason))

    def _reason(self, error: BaseException) -> str:
        where = f"{self._server.host}:{self._server.port}"
        if isinstance(error, asyncio.TimeoutError):
            return f"upsd at {where} does not answer within {self._server.timeout_s:g} s"
        return f"upsd at {where}: {_why(error)}"


def _why(error: BaseException) -> str:
    """Return what went wrong in words; asyncio's text of a refusal has errno and address again."""
    if isinstance(error, OSError) and error.errno and "Connect call" in str(error):
        return os.strerror(error.errno)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or "closed the connection"


def _retry_s(failures: int) -> float:
    """Return the wait before a new connection in s: nodes must not come all at once."""
    ceiling = min(RETRY_MAX_S, 2.0 ** min(failures, 4))
    return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 -- no secret


def _report(ups: str, lines: list[str]) -> UpsReport:
    values = dict(_variables(lines))
    return UpsReport(
        ups=ups,
        status=values.get("ups.status", ""),
        charge=_figure(values.get("battery.charge")),
        charge_low=_figure(values.get("battery.charge.low")),
        runtime_s=_figure(values.get("battery.runtime")),
    )


def _calm(report: UpsReport) -> bool:
    """Tell whether a UPS is on line and nothing else is going on, so that no figure matters."""
    words = set(report.status.split())
    return "OL" in words and words <= {"OL", "CHRG", "TRIM", "BOOST", "ECO"}


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def _variables(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if found := _VAR.fullmatch(line):
            yield found[2], _plain(found[3])


def _figure(text: str | None) -> float | None:
    """Return a figure; None for what is none: drivers tell -1 for what they do not know."""
    try:
        figure = math.nan if text is None else float(text)
    except ValueError:
        return None
    return min(figure, 1e7) if figure >= 0 else None


class _Lines(asyncio.Protocol):
    """A connection by lines that may become TLS in the middle (streams cannot before 3.11)."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._transport: asyncio.Transport | None = None
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._flaw = ""
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] | None = None

    async def connect(self, places: list[tuple[str, int]]) -> None:
        """Connect to the first address that takes us; raises the last's OSError or TimeoutError."""
        for left, (address, port) in zip(reversed(range(len(places))), places, strict=True):
            connecting = self._loop.create_connection(lambda: self, address, port)
            try:
                await within(connecting, self._timeout_s)
            except (OSError, asyncio.TimeoutError):
                if not left:
                    raise
            else:
                return

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        """Go on encrypted; raises OSError (ssl.SSLError) when the server is not who it should be.

        Bytes that came before the handshake were not the server's answer to anything: refused.
        """
        if self._lines or self._rest or self._transport is None:
            raise ValueError("answers before the handshake")
        upgrading = self._loop.start_tls(self._transport, self, context, server_hostname=host)
        self._transport = await within(upgrading, self._timeout_s)

    async def ask(self, command: str) -> str:
        """Send a command and return the answer's line; raises _Refused for ``ERR``."""
        if self._transport is None or "\n" in command:
            raise ValueError("a command of one line needs a connection")
        self._transport.write(command.encode() + b"\n")
        return await self._line()

    async def list(self, what: str) -> list[str]:
        """Return the lines of a list."""
        if await self.ask(f"LIST {what}") != f"BEGIN LIST {what}":
            raise ValueError("an answer that is no list")
        lines: list[str] = []
        while (line := await self._line()) != f"END LIST {what}":
            lines.append(line)
            if len(lines) > MAX_LIST_LINES:
                raise ValueError("a list without end")
        return lines

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        if self._transport is not None:
            self._transport.abort()

    async def _line(self) -> str:
        while not self._lines:
            if self._flaw:
                raise ValueError(self._flaw)
            if self._ended:
                raise EOFError("closed the connection")
            await self._more()
        text = self._lines.popleft().decode("utf-8", "replace").rstrip("\r")
        if text.startswith("ERR"):
            raise _Refused(text.partition(" ")[2] or "without a reason")
        return text

    async def _more(self) -> None:
        """Wait for more, or the end; raises TimeoutError. No task is made: polls go on for ever."""
        self._news = self._loop.create_future()
        timer = self._loop.call_later(self._timeout_s, self._tell, asyncio.TimeoutError())
        try:
            await self._news
        finally:
            timer.cancel()
            self._news = None

    def _tell(self, error: Exception | None = None) -> None:
        if self._news is None or self._news.done():
            return
        if error is None:
            self._news.set_result(None)
        else:
            self._news.set_exception(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._acknowledge_at_once()

    def data_received(self, data: bytes) -> None:
        """Keep what came, by lines; end what goes beyond any answer: nothing of it is kept."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(lines)
        if max(map(len, (*lines, self._rest))) > MAX_LINE_BYTES:
            self._flaw = "a line without end"
        elif len(self._lines) > 2 * MAX_LIST_LINES:
            self._flaw = "lines without end"
        if self._flaw:
            self._lines, self._rest = deque(), b""
            self.close()
        self._acknowledge_at_once()
        self._tell()

    def _acknowledge_at_once(self) -> None:
        """Delay no ACK: upsd writes line by line and waits for each (Nagle), else 40 ms a list.

        The kernel forgets it with every segment (tcp(7), TCP_QUICKACK).
        """
        connected = self._transport.get_extra_info("socket") if self._transport else None
        if connected is not None:
            with contextlib.suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's name
        """Wake whoever waits."""
        self._ended = True
        self._tell()
