"""Where an agent keeps its files, for the agent itself and for those who look for it.

Every answer is computed anew from the environment and the file system: a run folder may appear
later, or be another mount than a moment ago. Standard library only.
"""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

RUN_DIR_VARIABLE = "LINKHOLD_RUN_DIR"
STATE_DIR_VARIABLE = "LINKHOLD_STATE_DIR"

STATE_FILE = "state.json"
CONTROL_SOCKET = "control.sock"
BROKER_SOCKET = "mqtt/broker.sock"
AGENT_SOCKET = "mqtt/agent.sock"
OUTBOX_FILE = "outbox.db"

NODE_RUN_DIR = Path("/run/linkhold")
"""Run folder of the node's own agent, which runs as root."""
NODE_STATE_DIR = Path("/var/lib/linkhold")


def run_dir() -> Path:
    """Return the run folder of an agent that this user starts.

    ``LINKHOLD_RUN_DIR`` if set; ``/run/linkhold`` for root; else ``linkhold`` in
    ``$XDG_RUNTIME_DIR``, and without one ``/tmp/linkhold-<uid>``. Nothing is created.
    """
    named = os.environ.get(RUN_DIR_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    return NODE_RUN_DIR if os.geteuid() == 0 else _user_run_dir()


def find_run_dir() -> Path:
    """Return the run folder of the agent that speaks for this process, for clients and CLI.

    Like :func:`run_dir`, but an ordinary user's process prefers the node's own agent, unless
    that has left nothing but files and the user's own lives. A folder in ``/tmp`` that somebody
    else made, or could make before it is looked into, is never returned.
    """
    if os.environ.get(RUN_DIR_VARIABLE):
        return run_dir()
    own = _user_run_dir()
    if os.geteuid() == 0 or answers_in(NODE_RUN_DIR) or not _is_ours_or_absent(own):
        return NODE_RUN_DIR
    if answers_in(own):
        return own
    return NODE_RUN_DIR if agent_files_in(NODE_RUN_DIR) else own


def answers_in(folder: Path) -> bool:
    """Tell whether an agent listens in ``folder``. Never waits: connect(2) to a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(folder / CONTROL_SOCKET))
        except BlockingIOError:
            return True  # too many ask at once
        except OSError:
            return False
    return True


def state_dir() -> Path:
    """Return where an agent of this user keeps what outlives a reboot (outbox, originals).

    ``LINKHOLD_STATE_DIR`` if set; ``/var/lib/linkhold`` for root; else ``linkhold`` in
    ``$XDG_STATE_HOME`` (``~/.local/state``).
    """
    named = os.environ.get(STATE_DIR_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    if os.geteuid() == 0:
        return NODE_STATE_DIR
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local/state") / "linkhold"


def find_state_dir() -> Path:
    """Return the folder where the node's own agent keeps what outlives a reboot, to read there.

    Only root changes the network, so it is root's whoever asks, and may not be readable.
    """
    return state_dir() if os.environ.get(STATE_DIR_VARIABLE) else NODE_STATE_DIR


def agent_files_in(folder: Path) -> bool:
    """Tell whether an agent left its state file or its broker's socket in ``folder``."""
    return any(os.path.lexists(folder / name) for name in (STATE_FILE, BROKER_SOCKET))


def claim_dir(folder: Path, mode: int = 0o700) -> None:
    """Create ``folder`` with ``mode``, or check that the existing one is safe to use.

    Raises :class:`PermissionError` when it is no real folder, belongs to another user, or others
    may write in it: in ``/tmp`` anybody can make a folder under our name first.
    """
    try:
        folder.mkdir(mode=mode, parents=True)
        folder.chmod(mode)  # the umask may have taken bits away
        return
    except FileExistsError:
        pass
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{folder}: not a folder")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{folder}: belongs to user {found.st_uid}, not to us")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{folder}: others may write in it")


def claim_run_dir(folder: Path) -> None:
    """Make or check the run folder of an agent: everybody's to read when the agent is root."""
    claim_dir(folder, 0o755 if os.geteuid() == 0 else 0o700)


def _user_run_dir() -> Path:
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and runtime.is_dir():
        return runtime / "linkhold"
    return Path(tempfile.gettempdir()) / f"linkhold-{os.geteuid()}"


def _is_ours_or_absent(folder: Path) -> bool:
    """Tell whether nobody else made a folder, nor can make it before it is used."""
    try:
        found = folder.lstat()
    except OSError:
        return not _is_open_to_all(folder.parent)
    ours = found.st_uid in (0, os.geteuid()) and stat.S_ISDIR(found.st_mode)
    return ours and not found.st_mode & stat.S_IWOTH


def _is_open_to_all(folder: Path) -> bool:
    try:
        return bool(folder.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False
