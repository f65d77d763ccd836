"""A guest of the lab as a host of a rollout: its NIC on the controller's switch, and its sshd."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.containers import CONTROLLER
from support.lab import scenario
from support.serviced import await_service, say, shown, state
from support.topology import ip, wait_until

if TYPE_CHECKING:
    from support.lab import Box
    from support.netns import Namespace

ADDRESS = "192.0.2.9"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
KEEPALIVE = Path("/proc/sys/net/ipv4/tcp_keepalive_time")


def tap_on(namespace: Namespace) -> int:
    """Return a TAP device on the controller's bridge; it is gone with its descriptor."""

    def make() -> int:
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"guest", IFF_TAP | IFF_NO_PI))
        return tap

    made = namespace.call(make)
    namespace.ip("link set guest master br0 up")
    return made


@scenario(timeout_s=60)
def opens(box: Box, opt: str) -> str:
    """Take the NIC up, start sshd, and lay a finished venv where one is looked for."""
    Path("/opt/linkhold").symlink_to(opt)
    Path("/run/sshd").mkdir(exist_ok=True)
    Path("/etc/ssh/lab_host_key").chmod(0o600)
    ip("addr", "add", f"{ADDRESS}/24", "dev", "vec0")
    ip("link", "set", "vec0", "up")
    ip("route", "add", "default", "via", CONTROLLER)
    say("systemctl", "daemon-reload")
    said = say("systemctl", "start", "lab-ssh.service")
    wait_until(lambda: say("ss", "-ltnH", "sport", "=", ":22"), f"sshd; {said}", timeout_s=20)
    return said


@scenario(timeout_s=60)
def is_installed(box: Box) -> dict[str, Any]:
    """Tell what runs and what was written."""
    await_service()
    return {
        "failed": say("systemctl", "--failed", "--plain", "--no-legend"),
        "node": f"{state()['site']}/{state()['node']}",
        "network": state()["network"],
        "leg_b": state()["detail"]["agent"]["leg_b"],
        "key": say("stat", "-c", "%a %U", "/etc/linkhold/node.key"),
        "enabled": say("systemctl", "is-enabled", "linkhold.service", "linkhold-broker.service"),
        "pid": shown("linkhold.service", "MainPID"),
        "keepalive": KEEPALIVE.read_text(encoding="ascii").strip(),
        "left": say("find", "/root/.ansible", "-type", "f"),
    }


@scenario(timeout_s=60)
def is_gone(box: Box) -> dict[str, Any]:
    """Tell what is left of linkhold."""
    folders = ("/etc/systemd", "/etc/sysusers.d", "/etc/tmpfiles.d", "/usr/local/bin")
    return {
        "left": say("find", *folders, "-name", "*linkhold*"),
        "kept": [os.path.lexists(name) for name in ("/etc/linkhold", "/var/lib/linkhold")],
        "opt": os.path.lexists("/opt/linkhold"),
        "keepalive": KEEPALIVE.read_text(encoding="ascii").strip(),
    }
