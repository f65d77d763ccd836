"""Starts one command in a session of its own and leaves nothing of it behind.

``keeper.py FOLDER FD[,FD] COMMAND...``: the command inherits each FD. When it ends, when standard
input closes, or when the process that started the keeper is gone (killed with -9, say), the keeper
kills whatever the command left running, removes FOLDER and ends. Standard library only, no package.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None)


def main(folder: str, inherited: list[int], command: list[str]) -> None:
    """Run ``command``, wait for one of the three ends, and tidy up."""
    owner = os.pidfd_open(os.getppid())
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=inherited,
        preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
    )
    for fd in inherited:
        os.close(fd)
    select.select([owner, sys.stdin, os.pidfd_open(child.pid)], [], [])
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.wait()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(fd) for fd in sys.argv[2].split(",")], sys.argv[3:])
