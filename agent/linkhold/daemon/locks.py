"""One agent per run folder, per state folder and per network namespace."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from pathlib import Path

from linkhold.model import AlreadyRunning, StoreError

NAMESPACE_SOCKET = "\0linkhold/agent"
"""An abstract Unix socket: such names exist once per network namespace (unix(7))."""


class AgentLocks:
    """Holds the locks of a running agent; the kernel drops them when it dies, however it dies."""

    def __init__(self) -> None:
        self._held: list[int | socket.socket] = []
        self.warning = ""

    def take(self, *folders: Path) -> None:
        """Lock ``folders`` and this network namespace.

        Raises :class:`AlreadyRunning` with the process that holds a lock, :class:`StoreError`
        when a lock file cannot be made.
        """
        try:
            for folder in folders:
                self._take_folder(folder)
            self._take_namespace()
        except (AlreadyRunning, StoreError):
            self.release()
            raise

    def _take_folder(self, folder: Path) -> None:
        path = folder / "agent.lock"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
            pid, uid = _holder_of_namespace()
            text = f"this network namespace is watched by {describe(str(pid))}"
            if os.geteuid() == 0 and uid not in {0, None}:
                # Anybody may bind the name; that must not keep root's agent from starting.
                self.warning = f"{text} of uid {uid}; going on, since this agent is root"
                return
            raise AlreadyRunning(text) from error
        listener.listen(4)
        self._held.append(listener)

    def release(self) -> None:
        """Give the locks back."""
        while self._held:
            held = self._held.pop()
            if isinstance(held, int):
                os.close(held)
            else:
                held.close()


def _holder_of_namespace() -> tuple[int | None, int | None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(0.5)
        try:
            asking.connect(NAMESPACE_SOCKET)
            raw = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return None, None
        pid, uid, _gid = struct.unpack("3i", raw)
        return pid, uid


def describe(pid: str) -> str:
    """Return a process as a person finds it again: pid and command line."""
    if not pid.isdigit() or pid == "0":
        return "an agent that cannot be seen from here"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (OSError, UnicodeDecodeError):
        return f"process {pid}"
    return f"process {pid} ({command[:120]})" if command else f"process {pid}"
