"""Folders, mounts and users for agents under test; nothing of them outlives the test process."""

from __future__ import annotations

import stat
import subprocess
import sys
import tempfile
from pathlib import Path

TIED = ("setpriv", "--pdeathsig", "KILL", "--")
NOBODY = 65534
GATEWAY = "10.0.0.1"
"""The gateway of :mod:`support.beyond`."""


class Place:
    """A short folder that every user can reach; use it in a ``with`` statement.

    Paths of Unix sockets are limited to 107 bytes, and the broker is another user than root:
    pytest's own folders are too long for the one and closed to the other. It is removed at the end,
    also when pytest is killed: a shell waits on a pipe that only we hold.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="lh-agent-", dir="/tmp"))
        self.path.chmod(0o755)
        self._janitor = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; exec rm -rf --one-file-system "$0"', str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        assert self._janitor.stdin is not None
        self._janitor.stdin.close()
        self._janitor.wait(10)


def private_mounts(*commands: str) -> list[str]:
    """Return a wrapper that runs shell ``commands`` in a mount namespace of the agent's own."""
    script = " && ".join([*commands, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh"]


def resolver(address: str = GATEWAY) -> str:
    """Return shell that makes ``address`` the resolver; for a mount namespace."""
    return (
        f'f=$(mktemp) && echo "nameserver {address}" >"$f" && chmod 644 "$f" && '
        'mount --bind "$f" /etc/resolv.conf && rm "$f"'
    )


class Mounts:
    """A mount namespace for an agent, in which a test mounts, fills and freezes.

    ``/etc/resolv.conf`` in it names ``nameserver``.
    ``undo`` is a shell command that is run in it at the end, also when pytest is killed: a frozen
    file system would keep its processes for ever.
    """

    def __init__(self, undo: str = "true", nameserver: str = GATEWAY) -> None:
        script = f"{resolver(nameserver)}; echo ready; cat >/dev/null; {undo}"
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"ready\n"
        self.wrap = ["nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", "--"]

    def run(self, command: str) -> None:
        """Run a shell command inside."""
        subprocess.run([*self.wrap, "sh", "-ec", command], check=True, timeout=30)

    def output(self, command: str) -> str:
        """Run a shell command inside and return what it prints."""
        command_line = [*self.wrap, "sh", "-ec", command]
        return subprocess.run(
            command_line, check=True, timeout=30, capture_output=True, text=True
        ).stdout

    def path(self, inside: Path) -> Path:
        """Return how a path of the inside is reached from outside."""
        return Path(f"/proc/{self._keeper.pid}/root{inside}")

    def close(self) -> None:
        """Undo and let go; the mounts end with the last process in the namespace."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(20)
        self._keeper.stdout.close()


def as_nobody(place: Path) -> list[str]:
    """Return a wrapper that becomes an ordinary user, who can run this Python.

    Where the interpreter lies in a folder that is closed to others (root's home), that folder
    shows nothing but the interpreter, in a mount namespace of the wrapper's own.
    """
    user = str(NOBODY)
    change = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--", *TIED]
    prefix = Path(sys.base_prefix).resolve()
    closed = [path for path in reversed(prefix.parents) if not path.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return change
    kept = place / "interpreter"
    return [
        *private_mounts(
            f"mkdir -p {kept}",
            f"mount --bind {prefix} {kept}",
            f"mount -t tmpfs -o mode=755 none {closed[0]}",
            f"mkdir -p {prefix}",
            f"mount --bind {kept} {prefix}",
        ),
        *change,
    ]
