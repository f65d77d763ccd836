"""The few kernel interfaces of the guest that Python 3.10 has no names for."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_BIND = 4096
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
RTM_DELLINK, NLM_F_REQUEST, NLM_F_ACK = 17, 1, 4
RECORD_BYTES = 8192

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (for CLONE_NEWPID: its next child) into new namespaces."""
    _checked(_libc.unshare(flags), "unshare")


def mount(kind: str, target: str) -> None:
    """Mount a fresh file system of ``kind`` over ``target``."""
    _checked(_libc.mount(kind.encode(), target.encode(), kind.encode(), 0, None), f"mount {target}")


def bind(source: str, target: str) -> None:
    """Show ``source`` at ``target`` too."""
    result = _libc.mount(source.encode(), target.encode(), None, MS_BIND, None)
    _checked(result, f"bind mount {target}")


def prctl(option: int, value: int) -> None:
    """Set one attribute of this process."""
    _checked(_libc.prctl(option, value, 0, 0, 0), "prctl")


@contextmanager
def inside(namespace: str | Path) -> Iterator[None]:
    """Run the body of ``with`` in another network namespace; for this thread only.

    Sockets opened there stay there.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        away = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _checked(_libc.setns(away, CLONE_NEWNET), f"setns {namespace}")
        finally:
            os.close(away)
        yield
    finally:
        _libc.setns(home, CLONE_NEWNET)
        os.close(home)


def delete_links() -> None:
    """Delete every link of this network namespace that can be deleted."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as route:
        for index, _name in socket.if_nameindex():
            body = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, 0, 0)
            head = struct.pack(
                "=IHHII", 16 + len(body), RTM_DELLINK, NLM_F_REQUEST | NLM_F_ACK, index, 0
            )
            route.send(head + body)
            # An error is fine: lo stays, and a veth goes with its peer.
            route.recv(4096)


class Log:
    """The kernel's messages from the moment this was made."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._fd, 0, os.SEEK_END)
        self._lines: list[str] = []

    def all(self) -> list[str]:
        """Return the messages so far, one per line, without priority and time."""
        with suppress(BlockingIOError):
            while True:
                self._read_one()
        return list(self._lines)

    def _read_one(self) -> None:
        try:
            record = os.read(self._fd, RECORD_BYTES).decode("utf-8", "replace")
        except OSError as error:
            if error.errno != errno.EPIPE:  # EPIPE: some were overwritten, the next read goes on
                raise
            self._lines.append("(messages lost)")
        else:
            self._lines.append(record.split("\n", 1)[0].partition(";")[2])
