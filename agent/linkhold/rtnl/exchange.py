"""Requests to rtnetlink with their answers: dumps, and batches of changes with their verdicts.

Blocking, with a deadline; for commands, the guard and threads, never for the agent's loop.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.model import HostError
from linkhold.rtnl.attributes import attributes
from linkhold.rtnl.framing import (
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    SO_RCVBUFFORCE,
    SOL_NETLINK,
    error_of,
    messages,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from linkhold.rtnl.framing import Message

NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x4, 0x200, 0x400, 0x800
NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x100, 0x200
NETLINK_CAP_ACK, NETLINK_EXT_ACK = 10, 11
SO_SNDBUFFORCE = 32
NLMSGERR_ATTR_MSG = 1

BUFFER_BYTES = 4 << 20
DATAGRAM_BYTES = 1 << 17
ANSWER_S = 10.0
"""RTNL may be held for long, while thousands of links are removed."""
DUMP_TRIES = 5

_HEADER = struct.Struct("=IHHII")


@dataclass(frozen=True, slots=True)
class Request:
    """One message for the kernel: its type, its flags beside REQUEST and ACK, and its body."""

    kind: int
    flags: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the kernel says about one request: ``code`` is an errno, 0 for success."""

    code: int
    text: str = ""

    @property
    def reason(self) -> str:
        """The kernel's own words (extended ack), else those of the errno."""
        return self.text or os.strerror(self.code)


class Exchange:
    """A socket for requests. Use it as a context manager.

    ``protocol`` is rtnetlink, or another of netlink's; ``name`` is what errors call it.
    """

    def __init__(self, protocol: int = socket.NETLINK_ROUTE, name: str = "rtnetlink") -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        self._name = name
        self._socket = socket.socket(socket.AF_NETLINK, kind, protocol)
        for force, plain in (
            (SO_RCVBUFFORCE, socket.SO_RCVBUF),
            (SO_SNDBUFFORCE, socket.SO_SNDBUF),
        ):
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, force, BUFFER_BYTES)
            except PermissionError:
                self._socket.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)
        for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK):
            with contextlib.suppress(OSError):  # kernels before 4.12: verdicts without words
                self._socket.setsockopt(SOL_NETLINK, option, 1)
        self._socket.bind((0, 0))
        self._seq = int(time.monotonic() * 1000) & 0x3FFFFFFF

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def change(self, requests: Sequence[Request]) -> list[Verdict]:
        """Send all ``requests`` in one system call and return a verdict for each.

        The kernel works through them in order, one after the other, before the call returns
        (netlink_rcv_skb); one that fails does not end the others. Raises :class:`HostError`
        when answers are lost or late: then nobody knows, and the caller must look.
        """
        if not requests:
            return []
        first = self._seq + 1
        data = b"".join(self._framed(request) for request in requests)
        try:
            self._socket.sendto(data, (0, 0))
            return self._verdicts(first, len(requests))
        except OSError as error:
            raise HostError(f"{self._name}: {error.strerror}") from error

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """Return the bodies of all objects that a dump request lists.

        A dump that the kernel calls inconsistent (NLM_F_DUMP_INTR) is asked for again.
        """
        for _ in range(DUMP_TRIES):
            self._seq += 1
            header = _HEADER.pack(
                _HEADER.size + len(body), kind, NLM_F_REQUEST | NLM_F_DUMP, self._seq, 0
            )
            self._socket.sendto(header + body, (0, 0))
            found, whole = self._listed(kind)
            if whole:
                return found
        raise HostError(f"{self._name}: the network changes too fast to be listed")

    def get(self, kind: int, body: bytes) -> bytes:
        """Return the body of the one object that a request means, such as the route to an address.

        Raises :class:`HostError` with the kernel's reason where there is none.
        """
        self._seq += 1
        header = _HEADER.pack(_HEADER.size + len(body), kind, NLM_F_REQUEST, self._seq, 0)
        self._socket.sendto(header + body, (0, 0))
        while True:
            for data, message in self._received():
                if message.seq != self._seq:
                    continue
                if message.kind == NLMSG_ERROR:
                    verdict = _verdict(data, message)
                    raise HostError(f"{self._name}: {verdict.reason}", code=verdict.code)
                return data[message.start : message.end]

    def _framed(self, request: Request) -> bytes:
        self._seq += 1
        flags = NLM_F_REQUEST | NLM_F_ACK | request.flags
        length = _HEADER.size + len(request.body)
        padding = b"\0" * (-length % 4)
        return _HEADER.pack(length, request.kind, flags, self._seq, 0) + request.body + padding

    def _verdicts(self, first: int, count: int) -> list[Verdict]:
        found: dict[int, Verdict] = {}
        while len(found) < count:
            for data, message in self._received():
                if message.kind == NLMSG_ERROR and first <= message.seq < first + count:
                    found[message.seq] = _verdict(data, message)
        return [found[first + number] for number in range(count)]

    def _listed(self, kind: int) -> tuple[list[bytes], bool]:
        found: list[bytes] = []
        whole = True
        while True:
            for data, message in self._received():
                if message.seq != self._seq:
                    continue
                whole = whole and not message.flags & NLM_F_DUMP_INTR
                if message.kind in {NLMSG_DONE, NLMSG_ERROR}:
                    code = error_of(data, message)
                    if code:
                        raise HostError(f"{self._name}: dump {kind}: {os.strerror(code)}")
                    return found, whole
                found.append(data[message.start : message.end])

    def _received(self) -> Iterator[tuple[bytes, Message]]:
        if not select.select([self._socket], [], [], ANSWER_S)[0]:
            raise HostError(f"{self._name}: no answer within {ANSWER_S:g} s")
        data = self._socket.recv(DATAGRAM_BYTES)
        for message in messages(data):
            yield data, message


def _verdict(data: bytes, message: Message) -> Verdict:
    code = error_of(data, message)
    if not message.flags & NLM_F_ACK_TLVS:
        return Verdict(code)
    # The request follows the errno: only its header where the kernel caps it, else all of it.
    start = message.start + 4
    size = _HEADER.size
    if message.end - start < size:
        return Verdict(code)
    if not message.flags & NLM_F_CAPPED and code:
        size = (struct.unpack_from("=I", data, start)[0] + 3) & ~3
    found = attributes(data, start + size, message.end)
    if NLMSGERR_ATTR_MSG not in found:
        return Verdict(code)
    first, last = found[NLMSGERR_ATTR_MSG]
    return Verdict(code, data[first:last].rstrip(b"\0").decode("utf-8", "replace"))


def indexes() -> dict[str, int]:
    """Return the index of each interface by name.

    All of them, since asking for one by a name that is not there (SIOCGIFINDEX) lets the kernel
    run modprobe, which takes a tenth of a second each time.
    """
    return {name: index for index, name in socket.if_nameindex()}
