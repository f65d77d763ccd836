"""A worker's message is read whole, or given up when nobody is left to write the rest of it.

A worker that ends in the middle of a write leaves half a message in the pipe. The others, and this
process, hold the pipe's other end open, so reading the rest would never end. For a worker that was
killed torch's SIGCHLD handler interrupts that read; one that ended with exit code 0, as by a
handler of signals that calls ``os._exit(0)``, it takes for one that was done
(``_error_if_any_worker_fails()`` in torch/csrc/DataLoader.cpp).
"""

from __future__ import annotations

import io
import os
import select
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

POLL_MS = 500
MOST_BYTES = 1 << 20


def read_whole(queue: Any, check: Callable[[], None]) -> None:
    """Have ``queue``, torch's own of batches, call ``check`` while the rest of a message is due.

    What ``check`` raises ends the read. Takes the place of ``Connection._recv`` (CPython's
    Lib/multiprocessing/connection.py), for this connection alone.
    """
    reader = queue._reader  # noqa: SLF001 - see the text of linkhold.client.data.crew
    connection = getattr(reader, "conn", reader)  # torch.multiprocessing wraps it
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)

    def receive(size: int, read: Callable[[int, int], bytes] = os.read) -> io.BytesIO:
        content = io.BytesIO()
        while (left := size - content.tell()) > 0:
            if not ready.poll(POLL_MS):
                check()
                continue
            chunk = read(connection.fileno(), min(left, MOST_BYTES))
            if not chunk:
                raise EOFError
            content.write(chunk)
        return content

    connection._recv = receive  # noqa: SLF001
