"""The node's own broker: a mosquitto with two Unix listeners and nothing on disk.

User names prove nothing on a listener without passwords, so what a client may do depends on
the socket it came by: ``agent.sock`` (0600) may write, ``broker.sock`` may only read.
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

from linkhold.model import Unavailable

GROUP = "linkhold"
"""Members of this group may listen; where it does not exist, every user of the node may."""
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
memory_limit 67108864
persistence false

listener 0 {agent_socket}
allow_anonymous true
acl_file {folder}/agent.acl

listener 0 {trainer_socket}
allow_anonymous true
max_connections 1000
acl_file {folder}/trainer.acl
"""
AGENT_ACL = "topic readwrite linkhold/#\npattern readwrite linkhold/#\n"
TRAINER_ACL = "topic read linkhold/v1/#\npattern read linkhold/v1/#\n"


@dataclass(frozen=True, slots=True)
class BrokerFiles:
    """Where everything of the broker lies, below the run directory."""

    run_dir: Path

    @property
    def sockets(self) -> Path:
        """Folder of the sockets; belongs to the broker's user, who must create them."""
        return self.run_dir / "mqtt"

    @property
    def agent_socket(self) -> Path:
        """Socket that only the agent may use."""
        return self.sockets / "agent.sock"

    @property
    def trainer_socket(self) -> Path:
        """Socket of the training processes."""
        return self.sockets / "broker.sock"

    @property
    def configuration(self) -> Path:
        """The generated configuration."""
        return self.run_dir / "broker" / "mosquitto.conf"

    def sockets_exist(self) -> bool:
        """Tell whether both sockets are there."""
        return self.agent_socket.exists() and self.trainer_socket.exists()


def find_mosquitto() -> str:
    """Return the path of mosquitto; raises :class:`Unavailable` where there is none."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which("mosquitto", path=path)
    if found is None:
        raise Unavailable("mosquitto is not installed; trainers read the state file instead")
    return found


def broker_user() -> tuple[int, int] | None:
    """Return (uid, gid) to run the broker as, or None to run it as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if _exists_here(entry.pw_uid):
                return entry.pw_uid, entry.pw_gid
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


def open_to_trainers(files: BrokerFiles) -> str:
    """Set owner and mode of both sockets; return in words who may listen. Raises OSError."""
    if os.geteuid() != 0:
        _permit(files.agent_socket, 0o600)
        _permit(files.trainer_socket, 0o660)
        return "this user"
    _permit(files.agent_socket, 0o600, uid=0, gid=0)  # the broker's user has no business there
    try:
        gid = grp.getgrnam(GROUP).gr_gid
    except KeyError:
        _permit(files.trainer_socket, 0o666)
        return f"every user (there is no group {GROUP})"
    _permit(files.trainer_socket, 0o660, gid=gid)
    return f"group {GROUP}"


def _permit(socket: Path, mode: int, *, uid: int = -1, gid: int = -1) -> None:
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
