"""A host of its own for what is typed on a page: network, mounts, processes and host name.

It looks like the machine that a page speaks of: ``linkhold`` is in the PATH and runs as root,
``/etc``, ``/var/lib``, ``/var/log`` and ``/run`` may be written and are gone at the end, and no
process of the real machine can be seen. It ends with the test process, however that ends.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from docs.pages import ROOT
from support.places import TIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from support.netns import Namespace

LAYERED = ("/dev", "/etc", "/var/lib")
"""Folders that are the machine's to read and this place's to write."""
EMPTY = ("/run", "/var/log", "/etc/linkhold", "/var/lib/linkhold")
SHIMS = {
    # As root there is nothing to become.
    "sudo": 'while [ "${1#*=}" != "$1" ]; do export "$1"; shift; done; exec "$@"',
    # The other host is this one.
    "ssh": 'shift; exec "$@"',
    # No test boots twice: the last boot's journal is one that was recorded.
    "journalctl": "exec cat /var/log/kern.log",
}
"""Programs that cannot be tried here, and what stands for them."""
KERNEL_LOG = (
    "Nov 29 03:12:01.000100 gpu-r12-7 kernel: igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Down\n"
    "Nov 29 03:12:09.000200 gpu-r12-7 kernel: igb 0000:01:00.0 eth0: Reset adapter\n"
)
COMMAND_S = 40


class Host:
    """Such a place in the network of ``ns``, in a ``with`` statement; ``folder`` is its home."""

    def __init__(self, ns: Namespace, folder: Path, name: str) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self._bin = folder / "bin"
        self._bin.mkdir()
        for program, text in SHIMS.items():
            (self._bin / program).write_text(f"#!/bin/bash\n{text}\n")
            (self._bin / program).chmod(0o755)
        rooms = ["--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        inside = ["unshare", *rooms, "--propagation", "private", "sh", "-ec", _script(folder, name)]
        self._keeper = subprocess.Popen(
            [*TIED, "nsenter", f"--net={ns.path}", *inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"ready\n", "the place could not be made"
        self._init = _child(self._keeper.pid)
        self._started: list[subprocess.Popen[bytes]] = []
        self.write({"/var/log/kern.log": KERNEL_LOG})
        self.path(f"{self.home}/.venv").symlink_to(ROOT / ".venv")

    def close(self) -> None:
        """End everything that runs in it; its mounts are gone then."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(10)
        self._keeper.stdout.close()
        for process in self._started:
            process.wait(10)

    def path(self, inside: str) -> Path:
        """Return how a path of the inside is reached by the test."""
        return Path(f"/proc/{self._init}/root{inside}")

    def write(self, files: Mapping[str, str | bytes], mode: int = 0o600) -> None:
        """Write files, by their paths inside."""
        for inside, content in files.items():
            file = self.path(inside)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            file.chmod(mode)

    def command(self, line: str, environment: Iterable[str] = ()) -> list[str]:
        """Return the command that has a shell inside run ``line``, as root, in the home folder."""
        path = f"PATH={self._bin}:{ROOT}/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        clean = ["env", "-i", path, f"HOME={self.home}", "TERM=dumb", "LANG=C.UTF-8", *environment]
        enter = ["nsenter", f"--target={self._init}", "--net", "--mount", "--uts", "--pid"]
        return [*TIED, *enter, "--", *clean, "bash", "-ec", f"cd {self.home}; {line}"]

    def run(
        self, line: str, *, stdin: str = "", timeout_s: int = COMMAND_S
    ) -> subprocess.CompletedProcess[str]:
        """Run a line to its end. A traceback is an error whatever the test looks at."""
        done = subprocess.run(
            self.command(f"set -o pipefail; {line}"),
            check=False,
            capture_output=True,
            text=True,
            input=stdin,
            timeout=timeout_s,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    def start(self, line: str, log: Path, *environment: str) -> None:
        """Start a line that goes on; it ends with the place."""
        command = self.command(f"exec {line}", environment)
        with log.open("ab") as file:
            self._started.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
            )


def _script(folder: Path, name: str) -> str:
    lines = [f"mount -t tmpfs -o mode=755 place {folder}/home", "mkdir -p /var/log"]
    for number, layer in enumerate(LAYERED):
        upper, work = f"{folder}/home/.up{number}", f"{folder}/home/.work{number}"
        options = f"lowerdir={layer},upperdir={upper},workdir={work}"
        lines += [f"mkdir {upper} {work}", f"mount -t overlay -o {options} place {layer}"]
    for empty in EMPTY:
        lines += [f"mkdir -p {empty}", f"mount -t tmpfs -o mode=755 place {empty}"]
    lines += [f"hostname {name}", "echo ready", "cat >/dev/null"]
    return "\n".join(lines)


def _child(pid: int) -> int:
    """Return the only child of a process: the first process of its new namespace."""
    until_s = time.monotonic() + 5
    while time.monotonic() < until_s:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children:
            return int(children[0])
        time.sleep(0.01)
    raise AssertionError("no process in the new namespaces")
