"""Anonymous network namespaces for tests that need a real kernel.

A :class:`Namespace` is held by a descriptor only: it has no name in /run/netns and no process, so
it is gone with the test process, however that ends. Commands run in it by ``nsenter`` and are
killed with the thread that started them (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
ADDRESSES_S = 10.0
RTM_NEWLINK, NLM_F_REQUEST_ACK, IFF_UP = 16, 0x5, 0x1

_LIBC = ctypes.CDLL(None, use_errno=True)


def missing() -> str:
    """Return why namespaces cannot be made here, empty when they can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    try:
        Namespace().close()
    except OSError as error:
        return f"no network namespaces here: {error}"
    return ""


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _setns(descriptor: int) -> None:
    """os.setns() exists from Python 3.12; this moves the calling thread only."""
    _check(_LIBC.setns(descriptor, CLONE_NEWNET))


def _in_thread(work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  (handed to the caller)
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _make() -> int:
    _check(_LIBC.unshare(CLONE_NEWNET))
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


class Namespace:
    """A network namespace of its own, with loopback up; use it in a ``with`` statement.

    ``path`` names it for tools: ``nsenter --net=PATH``, ``ip link set eth0 netns PATH``.
    """

    def __init__(self) -> None:
        # A thread of its own, so that the caller stays where it is.
        self._descriptor = _in_thread(_make)
        self.path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        self._flipper: socket.socket | None = None

    def __enter__(self) -> Self:
        self.ip("link set lo up")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the namespace; the kernel removes it when nothing else is in it."""
        if self._flipper is not None:
            self._flipper.close()
            self._flipper = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs ``command`` inside."""
        return ["setpriv", "--pdeathsig", "KILL", "nsenter", f"--net={self.path}", *command]

    def run(self, *command: str, check: bool = True, stdin: str | None = None) -> str:
        """Run a command inside and return what it printed; at most 30 s."""
        done = subprocess.run(
            self.command(*command),
            check=False,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=30,
        )
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def ip(self, arguments: str) -> str:
        """Run ``ip`` with these arguments, split at spaces."""
        said = self.run("ip", *arguments.split())
        if " nodad" in arguments:
            self._await_addresses()
        return said

    def batch(self, lines: str) -> None:
        """Run many ``ip`` commands, one a line, in one process."""
        self.run("ip", "-batch", "-", stdin=lines)
        if " nodad" in lines:
            self._await_addresses()

    def _await_addresses(self) -> None:
        """Wait until IPv6 addresses of links that are up answer.

        The kernel makes their local routes in a worker (addrconf_dad_work) that waits for the lock
        of all namespaces: seen 1.5 s late where other tests make links meanwhile.
        """
        end_s = time.monotonic() + ADDRESSES_S
        while time.monotonic() < end_s:
            links = json.loads(self.run("ip", "-j", "-6", "addr", "show", "up"))
            wanted = {
                one["local"]
                for link in links
                if "LOWER_UP" in link.get("flags", ())
                for one in link["addr_info"]
                if one.get("scope") != "link" and "local" in one
            }
            routes = json.loads(self.run("ip", "-j", "-6", "route", "show", "table", "local"))
            if wanted <= {one["dst"] for one in routes}:
                return
            time.sleep(0.02)

    def popen(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command inside; the caller ends it."""
        return subprocess.Popen(self.command(*command))

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Put the calling thread into the namespace for a while; new sockets belong to it."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(self._descriptor)
            try:
                yield
            finally:
                _setns(home)
        finally:
            os.close(home)

    def call(self, work: Callable[[], T]) -> T:
        """Run ``work`` inside, in a thread of its own, and return what it returns."""

        def body() -> T:
            _setns(self._descriptor)
            return work()

        return _in_thread(body)

    def veth(self, name: str, peer: str, *, up: bool = True, other: Namespace | None = None) -> int:
        """Make a veth pair, ``peer`` in ``other`` if given; return the index of ``name``."""
        where = f" netns {other.path}" if other is not None else ""
        self.ip(f"link add {name} type veth peer name {peer}{where}")
        if up:
            self.ip(f"link set {name} up")
            (other or self).ip(f"link set {peer} up")
        return self.index(name)

    def index(self, name: str) -> int:
        """Return the interface index of ``name``."""
        with self.enter():
            return socket.if_nametoindex(name)

    def flip(self, index: int, *, up: bool) -> None:
        """Set a link administratively up or down, by netlink and without a process."""
        if self._flipper is None:
            with self.enter():
                self._flipper = socket.socket(
                    socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE
                )
            self._flipper.settimeout(10)
        flags = IFF_UP if up else 0
        body = struct.pack("=BxHiII", 0, 0, index, flags, IFF_UP)
        head = struct.pack("=IHHII", 16 + len(body), RTM_NEWLINK, NLM_F_REQUEST_ACK, 0, 0)
        self._flipper.sendto(head + body, (0, 0))
        answer = self._flipper.recv(4096)
        code = -struct.unpack_from("=i", answer, 16)[0]
        if code:
            raise OSError(code, os.strerror(code))
