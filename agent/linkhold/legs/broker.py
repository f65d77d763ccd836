"""The node's own broker: a mosquitto with two Unix listeners and nothing on disk.

User names prove nothing on a listener without passwords, so what a client may do depends on
the socket it came by: ``agent.sock`` (0600) may write, ``broker.sock`` may only read.

What is not bounded: sessions. mosquitto 2.0 counts a session whose client has gone for no limit
but that of memory. Whoever may open ``broker.sock`` can therefore fill ``memory_limit`` on purpose,
with client ids of 64 kB in a second (tried with 2.0.11); the broker then refuses or ends, the agent
starts another, and until then trainers read the state file. The limit leaves room for a thousand
frozen trainers with full queues; ``persistent_client_expiration`` (an hour is its least) removes
what jobs leave behind by mistake. Only the group on the socket keeps out those who mean it.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from linkhold import paths
from linkhold.children import missing_tools
from linkhold.model import Unavailable

GROUP = "linkhold"
"""Members of this group may listen; where it does not exist, every user of the node may."""
UNIT_FOLDER = "broker-unit"
"""Folder of the configuration where linkhold-broker.service runs the broker; an agent that runs
its own then takes that of the service for no leftover."""
USERS = ("linkhold-broker", "mosquitto", "nobody")
"""Who the broker runs as when the agent is root: the first of these that exists."""

CONFIGURATION = """\
# Written by linkhold at each start; changes are lost.
per_listener_settings true
log_dest stderr
log_type error
log_type warning
log_timestamp false
connection_messages false
max_queued_messages 1000
max_inflight_messages 100
max_packet_size 2097152
memory_limit 268435456
persistent_client_expiration 1h
persistence false

listener 0 {agent_socket}
allow_anonymous true
acl_file {folder}/agent.acl

listener 0 {trainer_socket}
allow_anonymous true
max_connections 1000
acl_file {folder}/trainer.acl
"""
# `topic` is for clients without a user name, `pattern` for those with one, whatever it is. Neither
# covers the other: `pattern` denies everything to a client whose id has a + or #. mosquitto warns
# at its start that the patterns have no %c or %u; they need none.
AGENT_ACL = "topic readwrite linkhold/#\npattern readwrite linkhold/#\n"
TRAINER_ACL = "topic read linkhold/v1/#\npattern read linkhold/v1/#\n"


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """Where everything of the broker lies, below the run directory."""

    run_dir: Path
    folder: str = "broker"
    """Where its configuration lies in there."""

    @property
    def sockets(self) -> Path:
        """Folder of the sockets; belongs to the broker's user, who must create them."""
        return self.agent_socket.parent

    @property
    def agent_socket(self) -> Path:
        """Socket that only the agent may use."""
        return self.run_dir / paths.AGENT_SOCKET

    @property
    def trainer_socket(self) -> Path:
        """Socket of the training processes."""
        return self.run_dir / paths.BROKER_SOCKET

    @property
    def configuration(self) -> Path:
        """The generated configuration."""
        return self.run_dir / self.folder / "mosquitto.conf"

    def sockets_exist(self) -> bool:
        """Tell whether both sockets are there."""
        return self.agent_socket.exists() and self.trainer_socket.exists()


@dataclass(frozen=True, slots=True)
class Found:
    """What the broker needs from this machine.

    ``user`` is the (uid, gid) to run it as, None for our own; ``group`` the gid of those who may
    listen, None where every user may; ``lacks`` says what is missing, in words.
    """

    binary: str
    user: tuple[int, int] | None
    group: int | None
    lacks: str = ""


def look_up() -> Found:
    """Find program, user and group; raises :class:`Unavailable` where there is no mosquitto.

    Call it from a thread: a name that is not in the files goes to the directory service, which
    may take minutes to say so when the network is down.
    """
    return Found(_find_mosquitto(), _broker_user(), listeners(), missing_tools())


def _find_mosquitto() -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which("mosquitto", path=path)
    if found is None:
        raise Unavailable("mosquitto is not installed; trainers read the state file instead")
    return found


def _broker_user() -> tuple[int, int] | None:
    if os.geteuid() != 0:
        return None
    for name in USERS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if _exists_here(entry.pw_uid):
                return entry.pw_uid, entry.pw_gid
    return None


def listeners() -> int | None:
    """Return the gid of those who may listen, None where every user may. See :func:`look_up`."""
    if os.geteuid() != 0:
        return os.getegid()
    with contextlib.suppress(KeyError):
        return grp.getgrnam(GROUP).gr_gid
    return None


def _exists_here(uid: int) -> bool:
    """Tell whether ``uid`` is mapped: in a user namespace (rootless container) most are not."""
    ranges = Path("/proc/self/uid_map").read_text().split()
    starts, counts = map(int, ranges[0::3]), map(int, ranges[2::3])
    return any(start <= uid < start + count for start, count in zip(starts, counts, strict=True))


def write_files(files: BrokerFiles, user: tuple[int, int] | None) -> None:
    """Write configuration and ACLs and clear the sockets' folder; raises OSError."""
    folder = files.configuration.parent
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    files.sockets.mkdir(mode=0o755, exist_ok=True)
    if user is not None:
        os.chown(files.sockets, *user)
    for socket in (files.agent_socket, files.trainer_socket):
        socket.unlink(missing_ok=True)
    text = CONFIGURATION.format(
        agent_socket=files.agent_socket, trainer_socket=files.trainer_socket, folder=folder
    )
    if user is None and os.geteuid() == 0:
        text += "user root\n"
    for name, content in (
        ("agent.acl", AGENT_ACL),
        ("trainer.acl", TRAINER_ACL),
        (files.configuration.name, text),
    ):
        path = folder / name
        path.write_text(content)
        path.chmod(0o644)


def open_to_trainers(files: BrokerFiles, group: int | None) -> None:
    """Set owner and mode of both sockets; see :class:`Found` for ``group``. Raises OSError."""
    ours = os.geteuid(), os.getegid()  # the broker's user has no business at the agent's socket
    _permit(files.agent_socket, 0o600, *ours)
    if group is None:
        _permit(files.trainer_socket, 0o666)
    else:
        _permit(files.trainer_socket, 0o660, gid=group)


def _permit(socket: Path, mode: int, uid: int = -1, gid: int = -1) -> None:
    """Set mode and owner of a socket and of nothing else.

    The folder belongs to the broker's user, which others may share: by a symbolic link it could
    have us change any file.
    """
    fd = os.open(socket, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise PermissionError(f"{socket} is no socket")
        itself = f"/proc/self/fd/{fd}"
        os.chown(itself, uid, gid)
        os.chmod(itself, mode)  # noqa: PTH101 - a descriptor, no path
    finally:
        os.close(fd)
