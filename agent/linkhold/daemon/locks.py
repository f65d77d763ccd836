"""One agent per run folder, per state folder and per network namespace."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.model import AlreadyRunning, StoreError

if TYPE_CHECKING:
    import asyncio

NAMESPACE_SOCKET = "\0linkhold/agent"
"""An abstract Unix socket: such names exist once per network namespace (unix(7))."""
BACKLOG = 1024
"""Nobody answers while an agent is stopped, and it must still be found."""
REST_S = 0.005
"""After each connection that was ended."""
ANSWER_TRIES = 10
ANSWER_PAUSE_S = 0.05


class AgentLocks:
    """Holds the locks of a running agent; the kernel drops them when it dies, however it dies."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._listener: socket.socket | None = None
        self.warning = ""

    def take(self, folder: Path) -> None:
        """Lock ``folder`` and this network namespace.

        Raises :class:`AlreadyRunning` with the process that holds a lock, :class:`StoreError`
        when a lock file cannot be made.
        """
        try:
            self.take_folder(folder)
            self._take_namespace()
        except (AlreadyRunning, StoreError):
            self.release()
            raise

    def take_folder(self, folder: Path) -> None:
        """Lock ``folder`` only."""
        path = folder / "agent.lock"
        try:
            # Who can open the file can lock it (flock(2)), and keep the next agent out.
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            os.fchmod(fd, 0o600)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 64, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise AlreadyRunning(f"{folder} is in use by {describe(holder)}") from error
        self._held.append(fd)
        with contextlib.suppress(OSError):  # a full disk does not make the lock worse
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def _take_namespace(self) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(NAMESPACE_SOCKET)
        except OSError as error:
            listener.close()
            self._judge_holder(error)
            return
        listener.listen(BACKLOG)
        listener.setblocking(False)
        self._listener = listener

    def _judge_holder(self, error: OSError) -> None:
        """Refuse if an agent holds the name. Anybody may bind it; that must not keep us out."""
        pid, uid = _holder_of_namespace()
        if pid is None:
            self.warning = f"the lock of this network namespace is held by no agent ({error})"
            return
        text = f"this network namespace is watched by {describe(str(pid))}"
        if os.geteuid() != 0 or uid == 0:
            raise AlreadyRunning(text) from error
        self.warning = f"{text} of uid {uid}; going on, since this agent is root"

    def attend(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take and end the connections of agents that ask who we are, lest they fill the queue."""
        if self._listener is not None:
            loop.add_reader(self._listener, self._hang_up, loop, self._listener)

    def _hang_up(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        """Take one at a time, with a rest: who connects in a loop keeps the agent from nothing."""
        with contextlib.suppress(OSError):
            listener.accept()[0].close()
        loop.remove_reader(listener)
        loop.call_later(REST_S, self.attend, loop)

    def release(self) -> None:
        """Give the locks back."""
        while self._held:
            os.close(self._held.pop())
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _holder_of_namespace() -> tuple[int | None, int | None]:
    """Return pid and uid of the process that listens on the name; None if none does.

    An agent that has just bound the name does not listen yet, so this asks for half a second.
    """
    for _ in range(ANSWER_TRIES):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(ANSWER_PAUSE_S)
            with contextlib.suppress(OSError):
                asking.connect(NAMESPACE_SOCKET)
                raw = asking.getsockopt(
                    socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
                )
                pid, uid, _gid = struct.unpack("3i", raw)
                return pid, uid
        time.sleep(ANSWER_PAUSE_S)
    return None, None


def describe(pid: str) -> str:
    """Return a process as a person finds it again: pid and command line."""
    if not pid.isdigit() or pid == "0":
        return "an agent that cannot be seen from here"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (OSError, UnicodeDecodeError):
        return f"process {pid}"
    return f"process {pid} ({command[:120]})" if command else f"process {pid}"
