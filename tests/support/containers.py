"""Nodes with systemd and sshd out of namespaces: hosts for a rollout, each up in a second.

Each has a network namespace of its own on one switch, and mount, PID, UTS, IPC and cgroup
namespaces; its root is an overlay over the machine's, in memory, so that nothing is written. The
kernel ends all of it with the node's first process, which a keeper ends when the tests end.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from support.broker import wait_until
from support.lab.prepare import HIDDEN, MASKED
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

HERE = Path(__file__).parent
CONTROLLER = "192.0.2.1"
CGROUPS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
OTHERS_MASKED = (
    *("console-getty.service", "systemd-udevd.service", "systemd-udev-trigger.service"),
    *("systemd-udevd-kernel.socket", "systemd-udevd-control.socket", "systemd-networkd.service"),
    *("dbus-org.freedesktop.login1.service", "e2scrub_reap.service", "remote-fs.target"),
)
SSHD = """\
[Service]
ExecStart=/usr/sbin/sshd -D -e -f /etc/ssh/lab.conf
"""
SSHD_CONF = """\
ListenAddress {address}
HostKey /etc/ssh/lab_host_key
AuthorizedKeysFile /etc/ssh/lab_keys
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
StrictModes no
Subsystem sftp internal-sftp
"""


def missing() -> str:
    """Return why there can be no such node here, empty when there can."""
    if os.geteuid() != 0:
        return "needs root to make nodes out of namespaces"
    programs = ("/usr/sbin/sshd", "/lib/systemd/systemd", "/usr/bin/dbus-daemon")
    lacking = [program for program in programs if not Path(program).exists()]
    if lacking:
        return f"not installed: {', '.join(lacking)} (openssh-server, systemd, dbus)"
    return "" if cgroup_root() else "no cgroup2 that can be written"


def cgroup_root() -> Path | None:
    """Return where cgroups of version 2 are mounted and can be made."""
    return next((one for one in CGROUPS if os.access(one / "cgroup.procs", os.W_OK)), None)


def node_files(public_key: str, host_key: str, address: str = "{address}") -> dict[str, str]:
    """Return the files with which tests reach a node; a container fills in its address."""
    return {
        "etc/systemd/system/lab-ssh.service": SSHD,
        "etc/ssh/lab.conf": SSHD_CONF.format(address=address),
        # What the machine's owner has there bash would read at each command that comes by SSH.
        "root/.bashrc": "",
        "etc/resolv.conf": "# no resolver is reached from here\n",
        "etc/ssh/lab_keys": public_key,
        "etc/ssh/lab_host_key": host_key,
    }


class Switch:
    """The network that controller and nodes share; the controller is in its namespace."""

    def __init__(self) -> None:
        self.namespace = Namespace()
        self._count = 0

    def __enter__(self) -> Self:
        self.namespace.__enter__()
        self.namespace.ip("link add br0 type bridge forward_delay 0 mcast_snooping 0")
        self.namespace.ip(f"addr add {CONTROLLER}/24 dev br0")
        self.namespace.ip("link set br0 up")
        return self

    def __exit__(self, *_: object) -> None:
        self.namespace.close()

    def plug(self, node: Namespace) -> str:
        """Give a node an eth0 on this switch; return its address."""
        self._count += 1
        port, address = f"p{self._count}", f"192.0.2.{10 + self._count}"
        self.namespace.veth(port, "eth0", other=node)
        self.namespace.ip(f"link set {port} master br0")
        node.ip(f"addr add {address}/24 dev eth0")
        node.ip(f"route add default via {CONTROLLER}")
        return address


class Container:
    """One node; ``files`` (path below / to text) are there when it boots.

    ``layers`` are folders whose content it has besides the machine's, such as a finished venv.
    """

    def __init__(
        self,
        name: str,
        switch: Switch,
        folder: Path,
        files: dict[str, str],
        layers: Iterable[Path] = (),
    ) -> None:
        self.name = name
        self.namespace = Namespace()
        self.namespace.__enter__()
        self.address = switch.plug(self.namespace)
        self._folder = folder / name
        self._layers = tuple(layers)
        files = {path: text.replace("{address}", self.address) for path, text in files.items()}
        _lay_out(self._folder, files)

    def start(self) -> None:
        """Boot it, and wait until its sshd listens."""
        root = cgroup_root()
        assert root is not None
        cgroup = root / f"linkhold-{os.getpid()}-{self.name}"
        cgroup.mkdir()
        layers = map(str, (*self._layers, self._folder))
        command = ["nsenter", f"--net={self.namespace.path}", str(HERE / "container.sh")]
        keeper = [sys.executable, "-I", "-S", str(HERE / "lab/keeper.py"), str(cgroup), "2"]
        self._keeper = subprocess.Popen(
            [*keeper, *command, self.name, str(cgroup), *layers],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def await_ssh(self) -> None:
        """Wait until its sshd listens."""
        listening = ["ss", "-ltnH", "sport", "=", ":22"]
        wait_until(lambda: self.namespace.run(*listening), 30, f"sshd of {self.name}")

    def say(self, *command: str) -> str:
        """Run a command as root in it and return what it printed."""
        inside = ["nsenter", "--target", str(self._first()), "--all", "--", *command]
        done = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=60)
        return (done.stdout + done.stderr).strip()

    def _first(self) -> int:
        """Return its first process as this machine numbers it: systemd below unshare."""
        found = self._keeper.pid
        for _ in range(2):
            children = Path(f"/proc/{found}/task/{found}/children").read_text(encoding="ascii")
            found = int(children.split()[0])
        return found

    def close(self) -> None:
        """End it; the keeper removes its cgroup."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(20)
        self.namespace.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.close()


def _lay_out(folder: Path, files: dict[str, str]) -> None:
    """Write a node's layer: its files, and nothing of what this machine's owner configured."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600 if name.endswith("_host_key") else 0o644)
    for name in HIDDEN:
        _hide(folder / name)
    units = folder / "etc/systemd/system"
    for unit in (*MASKED, *OTHERS_MASKED):
        (units / unit).symlink_to("/dev/null")
    wants = units / "multi-user.target.wants"
    wants.mkdir()
    (wants / "lab-ssh.service").symlink_to("../lab-ssh.service")


def _hide(place: Path) -> None:
    """Empty a folder of the machine's for the node, or take it away: overlayfs, "whiteouts"."""
    if place.name == "linkhold":  # a node that never had it has no such folder
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))
        return
    place.mkdir(parents=True, exist_ok=True)
    os.setxattr(place, "trusted.overlay.opaque", b"y")
