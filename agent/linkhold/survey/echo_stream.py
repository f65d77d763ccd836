"""A stream of ICMP echoes to one host, and what of it was lost. Standard library; needs root."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.frames import echo
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from typing_extensions import Self

LAST_ANSWER_S = 0.5
_MARK = struct.Struct("!8sI")


@dataclass(frozen=True, slots=True)
class Loss:
    """What became of a stream. ``longest_ms`` spans the longest run of lost echoes."""

    sent: int
    lost: int
    longest_ms: float


def judge(sent: dict[int, float], answered: set[int]) -> Loss:
    """Return the loss of echoes ``sent`` (number -> time in s) of which some were answered. Pure.

    An outage lasts from the last echo that was answered before it to the first one after it.
    """
    longest_s, last_good, lost = 0.0, None, 0
    for number, at in sorted(sent.items()):
        if number in answered:
            if last_good is not None and last_good[0] != number - 1:
                longest_s = max(longest_s, at - last_good[1])
            last_good = (number, at)
        else:
            lost += 1
    if sent and last_good is not None and last_good[0] != max(sent):
        longest_s = max(longest_s, sent[max(sent)] - last_good[1])
    elif sent and last_good is None:
        longest_s = sent[max(sent)] - sent[min(sent)]
    return Loss(len(sent), lost, round(longest_s * 1000, 1))


class EchoStream:
    """Sends echoes to ``host`` every ``interval_s`` from a thread, while used as a context.

    Raises :class:`Unavailable` where raw sockets are not allowed.
    """

    def __init__(self, host: str, *, interval_s: float = 0.01) -> None:
        self._host = host
        self._interval_s = interval_s
        self._mark = os.urandom(8)
        self._version = 6 if ":" in host else 4
        family = socket.AF_INET6 if self._version == 6 else socket.AF_INET  # noqa: PLR2004
        protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
        try:
            kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
            self._socket = socket.socket(family, kind, protocol)
        except PermissionError as error:
            raise Unavailable(f"echoes to {host}: {error.strerror}") from error
        self._socket.setblocking(False)
        self._sent: dict[int, float] = {}
        self._answered: set[int] = set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="linkhold-echo")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._socket.close()

    @property
    def loss(self) -> Loss:
        """What was lost, once the stream has ended."""
        return judge(self._sent, self._answered)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ending.is_set():
            self._send(len(self._sent) + 1)
            due += self._interval_s
            self._listen(due)
        self._listen(time.monotonic() + LAST_ANSWER_S)

    def _send(self, number: int) -> None:
        self._sent[number] = time.monotonic()
        payload = _MARK.pack(self._mark, number)
        packet = echo.request(self._version, os.getpid(), number, payload)
        try:
            self._socket.sendto(packet, (self._host, 0))
        except OSError:  # no route, no buffer: lost like any other
            return

    def _listen(self, until: float) -> None:
        while (left_s := until - time.monotonic()) > 0:
            if not select.select([self._socket], [], [], left_s)[0]:
                return
            try:
                data = self._socket.recv(2048)
            except OSError:
                continue
            payload = echo.reply_payload(self._version, data)
            if payload is not None and len(payload) == _MARK.size:
                mark, number = _MARK.unpack(payload)
                if mark == self._mark:
                    self._answered.add(number)
