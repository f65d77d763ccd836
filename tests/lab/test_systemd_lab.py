"""The guest with systemd: it boots clean, its managers see the NICs, its disk outlives it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.lab import Box, scenario
from support.topology import NODE_4, ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.systemd import Machine, Manager

    Maker = Callable[..., Machine]

NETWORKD = """\
[Match]
Name=eth0

[Network]
Address=10.0.0.2/24
Gateway=10.0.0.1
"""
KEYFILE = """\
[connection]
id=wired
uuid=6f0c7d0c-6a3e-4f0e-9d8f-000000000001
type=ethernet
interface-name=eth0

[ipv4]
method=manual
address1=10.0.0.2/24,10.0.0.1

[ipv6]
method=ignore
"""
NETPLAN = """\
network:
  version: 2
  ethernets:
    eth0:
      dhcp4: true
"""
MANAGED = {
    "networkd": ("networkd", {"/etc/systemd/network/10-eth0.network": NETWORKD}, 0),
    "networkd, DHCP by netplan": ("networkd", {"/etc/netplan/10-lab.yaml": NETPLAN}, 3600),
    "NetworkManager": (
        "NetworkManager",
        {"/etc/NetworkManager/system-connections/wired.nmconnection": KEYFILE},
        0,
    ),
}
SYNCED, TRACE = Path("/var/lib/synced"), Path("/etc/systemd/system/left.target")


@scenario(timeout_s=30)
def is_managed(box: Box) -> dict[str, object]:
    """Wait until the manager has configured eth0, and tell the state of the system."""
    net = box.two_switches()
    wait_until(lambda: NODE_4 in ip("-4", "addr", "show", "eth0"), "address", timeout_s=15)
    wait_until(net.answers, "the gateway answers")
    return {
        "state": _say("systemctl", "is-system-running"),
        "failed": _say("systemctl", "--failed", "--plain", "--no-legend"),
    }


@scenario(timeout_s=10)
def writes(box: Box) -> None:
    """Leave one file on the disk for certain, and another for a good shutdown."""
    SYNCED.write_text("here", encoding="ascii")
    os.sync()
    TRACE.write_text("[Unit]\n", encoding="ascii")


@scenario(timeout_s=10)
def reads(box: Box) -> dict[str, object]:
    """Tell which files are there, and whether NICs and bonding are."""
    net = box.two_switches()
    ip("link", "set", "eth0", "up")
    wait_until(lambda: net.carrier("eth0"), "carrier")
    return {
        "synced": SYNCED.exists() and SYNCED.read_text(encoding="ascii"),
        "left": TRACE.exists(),
        "bonding": Path("/sys/class/net/bonding_masters").exists(),
    }


def _say(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.parametrize(("manager", "files", "lease_s"), MANAGED.values(), ids=MANAGED)
def test_manager_configures_a_nic(
    systemd_machine: Maker, manager: Manager, files: dict[str, str], lease_s: int
) -> None:
    """The machine boots without a failed unit and its manager makes eth0 work."""
    machine = systemd_machine(manager, files, dhcp_lease_s=lease_s)

    assert machine.run(is_managed).value == {"state": "running", "failed": ""}


def test_disk_outlives_the_guest(systemd_machine: Maker) -> None:
    """A synced file survives a power cut, any file a reboot, and the host sees neither."""
    machine = systemd_machine()

    machine.run(writes)
    machine.cut_power()
    assert machine.run(reads).value["synced"] == "here"
    machine.run(writes)
    machine.reboot()
    assert machine.run(reads).value == {"synced": "here", "left": True, "bonding": True}
    assert not SYNCED.exists()
    assert not TRACE.exists()
