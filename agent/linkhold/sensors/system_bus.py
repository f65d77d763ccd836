"""A connection to the system's message bus on the event loop, with file descriptors.

jeepney packs and parses messages; its own asyncio connection cannot receive descriptors, which is
what an inhibitor lock is.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import socket
from itertools import count
from typing import TYPE_CHECKING, Any

from linkhold.deadlines import within
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

BUS = "/run/dbus/system_bus_socket"
TIMEOUT_S = 5.0
MAX_MESSAGE_BYTES = 1 << 18
MAX_SIGNAL_BYTES = 512
"""Of a signal that is read: logind's has 200. Any user of the node may send us signals, of 32 MB,
and jeepney takes seconds to read such a one."""
MOST_AT_ONCE = 1 << 16
HEAD_BYTES = 16
"""After them the size of a message is known (D-Bus Specification, Message Format)."""


class Refused(Exception):
    """The other side answered with an error; the text is its name and what it says."""


class SystemBus:
    """One connection. ``on_signal(member, body)`` is called for each signal that was asked for.

    ``on_end()`` is called when the connection is gone; ``ended`` says so after.
    """

    def __init__(
        self, on_signal: Callable[[str, tuple[Any, ...]], None], on_end: Callable[[], None]
    ) -> None:
        self._on_signal, self._on_end = on_signal, on_end
        self._socket: socket.socket | None = None
        self._serials = count(1)
        self._waiting: dict[int, asyncio.Future[tuple[Any, ...]]] = {}
        self._takes_fds = False
        self._left_out = 0
        self._loop = asyncio.get_running_loop()
        self.ended = False

    async def connect(self, path: str = BUS) -> None:
        """Connect and say hello.

        Raises Unavailable where jeepney is missing, OSError, EOFError, ValueError, TimeoutError.
        """
        os.stat(path)  # noqa: PTH116 -- without a bus there is no need to load what speaks to it
        try:
            self._jeepney = importlib.import_module("jeepney")
            self._fds = importlib.import_module("jeepney.fds")
            auth = importlib.import_module("jeepney.auth")
        except ImportError:
            raise Unavailable("D-Bus: the package jeepney is not installed") from None
        self._parser = self._jeepney.Parser()
        self._socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        )
        await within(self._authenticate(path, auth), TIMEOUT_S)
        self._loop.add_reader(self._socket, self._readable)
        bus = ("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
        await self.call(bus, "Hello")

    async def _authenticate(self, path: str, auth: Any) -> None:
        assert self._socket is not None  # noqa: S101 -- made by the only caller
        await self._loop.sock_connect(self._socket, path)
        talk = auth.Authenticator(enable_fds=True)
        for line in talk:
            await self._loop.sock_sendall(self._socket, line)
            answer = await self._loop.sock_recv(self._socket, 1024)
            if not answer:
                raise EOFError("the bus closed the connection")
            talk.feed(answer)
        await self._loop.sock_sendall(self._socket, auth.BEGIN)

    async def call(
        self,
        where: tuple[str, str, str],
        method: str,
        signature: str = "",
        body: tuple[Any, ...] = (),
        *,
        brings_fd: bool = False,
    ) -> tuple[Any, ...]:
        """Call a method at (path, bus name, interface) and return what it returns.

        ``brings_fd``: a file descriptor is among it. Raises Refused, and what :meth:`connect`
        raises besides Unavailable.
        """
        if self._socket is None:
            raise EOFError("no connection")
        path, name, interface = where
        address = self._jeepney.DBusAddress(path, bus_name=name, interface=interface)
        message = self._jeepney.new_method_call(address, method, signature or None, body)
        serial = next(self._serials)
        future: asyncio.Future[tuple[Any, ...]] = self._loop.create_future()
        self._waiting[serial] = future
        self._takes_fds = brings_fd
        try:
            data = message.serialise(serial)
            await within(self._loop.sock_sendall(self._socket, data), TIMEOUT_S)
            return await within(future, TIMEOUT_S)
        finally:
            self._waiting.pop(serial, None)
            self._takes_fds = False

    def _readable(self) -> None:
        try:
            self._receive()
        except BlockingIOError:
            pass
        except Exception as error:  # noqa: BLE001 -- whatever the bus sends must not end the loop
            self._end(error)

    def _receive(self) -> None:
        if self._socket is None:
            return
        wanted = self._left_out or self._parser.bytes_desired()
        # Without room for descriptors the kernel drops them. To close one ourselves could hang:
        # of a file of FUSE, until whoever sent it answers.
        room = self._fds.fds_buf_size() if self._takes_fds else 0
        data, extra, _, _ = self._socket.recvmsg(min(wanted, MOST_AT_ONCE), room)
        if not data:
            raise EOFError("the bus closed the connection")
        if self._left_out:
            self._left_out -= len(data)
            return
        self._parser.add_data(data, fds=self._fds.FileDescriptor.from_ancdata(extra))
        if self._parser.buf.bytes_buffered >= HEAD_BYTES:
            self._take()

    def _take(self) -> None:
        """Read a message if it has come; a signal that is too long or makes no sense is left out.

        Raises whatever jeepney raises, and ValueError, for an answer that is so.
        """
        left, kinds = self._parser.bytes_desired(), self._jeepney.MessageType
        kind = self._parser.buf.peek(2)[1]
        is_answer = kind in {kinds.method_return.value, kinds.error.value}
        if left > (MAX_MESSAGE_BYTES if is_answer else MAX_SIGNAL_BYTES):
            if is_answer:
                raise ValueError("a message that is too long")
            self._left_out, self._parser = left, self._jeepney.Parser()
            return
        try:
            message = self._parser.get_next_message()
        except Exception:
            if is_answer:
                raise
            self._parser = self._jeepney.Parser()  # it was read to its end, and no further
            return
        if message:
            self._dispatch(message)

    def _dispatch(self, message: Any) -> None:
        fields, kinds = self._jeepney.HeaderFields, self._jeepney.MessageType
        kind, header = message.header.message_type, message.header.fields
        if kind is kinds.signal:
            self._on_signal(str(header.get(fields.member, "")), message.body)
            return
        future = self._waiting.get(header.get(fields.reply_serial, 0))
        if future is None or future.done():
            return
        if kind is kinds.error:
            text = " ".join(str(part)[:200] for part in message.body[:1])
            future.set_exception(Refused(f"{header.get(fields.error_name, '?')}: {text}"))
        else:
            future.set_result(message.body)

    def _end(self, error: BaseException) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(EOFError(f"the bus is gone: {error}"))
        self.close()

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        connected, self._socket = self._socket, None
        if connected is not None:
            with contextlib.suppress(ValueError):
                self._loop.remove_reader(connected)
            connected.close()
        if not self.ended:
            self.ended = True
            self._on_end()
