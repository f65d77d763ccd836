"""Boots: a bond that nobody else makes stands again, and what a crash left is undone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lab import Box, scenario
from support.topology import GATEWAY_4, NODE_4, ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.systemd import Machine, Manager

    Maker = Callable[..., Machine]

BIN = Path(sys.executable).parent
LINKHOLD = str(BIN / "linkhold")
REPO = Path(__file__).resolve().parents[2]
SHIPPED = "/opt/linkhold/current/bin/python -I -m linkhold.actuators.boot"
UNIT = "/etc/systemd/system/linkhold-boot.service"
CONFIG = "/etc/linkhold/linkhold.yaml"
BOND = "bonds: {bond0: {members: [eth0, eth1], confirm_after_s: 2}}\n"
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
NETWORKD = "[Match]\nName=eth0\n\n[Network]\nAddress=10.0.0.2/24\nGateway=10.0.0.1\n"

DIE_BEFORE_COMMIT = """
import os, signal, sys
from linkhold.actuators.journal import Journal
from linkhold.cli import main

def stop_here(self, document):
    os.sync()
    open("/run/reached", "w").close()
    signal.pause()

Journal.commit = stop_here
sys.exit(main(["bond", "apply", "--yes"]))
"""
"""Runs `bond apply` up to the last moment before it is committed, and waits there for the end."""


PROFILES: dict[Manager, dict[str, str]] = {
    "networkd": {"/etc/systemd/network/10-eth0.network": NETWORKD},
    "NetworkManager": {"/etc/NetworkManager/system-connections/wired.nmconnection": KEYFILE},
}


def boot_unit() -> str:
    """Return the unit as it is shipped, with the program of this checkout."""
    shipped = (REPO / "systemd/linkhold-boot.service").read_text(encoding="utf-8")
    return shipped.replace(SHIPPED, str(BIN / "linkhold-boot"))


def files(**more: str) -> dict[str, str]:
    """Return the files of a machine with linkhold's boot unit and configuration."""
    return {UNIT: boot_unit(), CONFIG: BOND, **more}


@scenario(timeout_s=90)
def made_by_hand(box: Box) -> dict[str, Any]:
    """Give eth0 an address by hand, make the bond, and enable the boot unit."""
    net = box.two_switches()
    for nic in ("eth0", "eth1"):
        ip("link", "set", nic, "up")
    net.give_address("eth0")
    wait_until(net.answers, "the gateway answers")
    done = subprocess.run(
        [LINKHOLD, "bond", "apply", "--yes"], capture_output=True, text=True, check=False
    )
    subprocess.run(["systemctl", "enable", "linkhold-boot"], check=True, capture_output=True)
    return {"code": done.returncode, "said": done.stdout + done.stderr}


@scenario(timeout_s=90)
def after_boot(box: Box) -> dict[str, Any]:
    """Tell what the boot made of the network."""
    net = box.two_switches()
    wait_until(_boot_unit_ended, "the boot unit has ended", timeout_s=100)
    with suppress(TimeoutError):  # a manager needs its time; the test says what is wrong
        wait_until(net.answers, "the gateway answers", timeout_s=10)
    said = subprocess.run(
        ["journalctl", "-u", "linkhold-boot", "-o", "cat", "--no-pager"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "addresses": ip("-br", "-4", "addr"),
        "links": ip("-br", "link"),
        "routes": ip("-4", "route"),
        "answers": net.answers(),
        "said": said.stdout,
        "files": profiles(),
        "journal": Path("/var/lib/linkhold/bond/journal.json").exists(),
    }


def profiles() -> list[str]:
    """Return the files of managers that linkhold wrote."""
    folders = ("/etc/systemd/network", "/etc/NetworkManager/system-connections")
    return sorted(str(path) for name in folders for path in Path(name).glob("*linkhold*"))


def _boot_unit_ended() -> bool:
    shown = subprocess.run(
        ["systemctl", "show", "-P", "ActiveState", "linkhold-boot"],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout.strip() not in {"activating", ""}


def test_bond_of_nobody_stands_again(systemd_machine: Maker) -> None:
    """Where no manager owns the NICs, the early oneshot makes the bond with all it carried."""
    machine = systemd_machine("none", files())
    made = machine.run(made_by_hand).value
    assert made["code"] == 0, made["said"]
    assert "linkhold-boot.service is not enabled" in made["said"]

    machine.reboot()
    found = machine.run(after_boot).value

    # Its operational state may still be on its way to be shown: that it answers is the proof.
    assert re.search(rf"^bond0 +\S+ +{NODE_4}/24", found["addresses"], re.MULTILINE), found
    assert f"default via {GATEWAY_4} dev bond0" in found["routes"]
    assert found["answers"], found


DEAD_GATEWAY = """
[Unit]
DefaultDependencies=no
Before=linkhold-boot.service

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'ip -n $(ip netns list | grep -o "^gw-[^ ]*") link set g0 down'

[Install]
WantedBy=multi-user.target
"""

LESS_PATIENT = """
import sys
from linkhold.actuators import boot
boot.PATIENCE_S, boot.ALONE_S = 6.0, 4.0
sys.exit(boot.main())
"""


@scenario(timeout_s=60)
def no_gateway_from_now_on(box: Box) -> None:
    """Let the gateway be dead at the next boots."""
    Path("/etc/systemd/system/dead-gateway.service").write_text(DEAD_GATEWAY, encoding="ascii")
    subprocess.run(["systemctl", "enable", "dead-gateway"], check=True, capture_output=True)


@scenario(timeout_s=60)
def gateway_comes_back(box: Box) -> dict[str, Any]:
    """Let the gateway live again, long after the boot."""
    net = box.two_switches()
    ip("link", "set", "g0", "up", ns=net.gateway)
    wait_until(net.answers, "the gateway answers", timeout_s=15)
    return {"routes": ip("-4", "route")}


def test_a_bond_stays_when_no_gateway_answers(systemd_machine: Maker) -> None:
    """After a power cut the switches come later than the node: it has its bond when they do."""
    unit = boot_unit().replace(str(BIN / "linkhold-boot"), f"{sys.executable} /etc/hurry.py")
    machine = systemd_machine("none", {**files(), UNIT: unit, "/etc/hurry.py": LESS_PATIENT})
    assert machine.run(made_by_hand).value["code"] == 0
    machine.run(no_gateway_from_now_on)

    machine.reboot()
    found = machine.run(after_boot).value

    assert "is made again and stays" in found["said"], found
    assert f"bond0            UP             {NODE_4}/24" in found["addresses"], found
    later = machine.run(gateway_comes_back).value
    assert f"default via {GATEWAY_4} dev bond0" in later["routes"]


@scenario(timeout_s=120)
def dies_before_commit(box: Box) -> dict[str, Any]:
    """Run `bond apply` until the profiles are written and nothing is committed."""
    net = box.two_switches()
    wait_until(lambda: NODE_4 in ip("-4", "addr", "show", "eth0"), "address", timeout_s=15)
    wait_until(net.answers, "the gateway answers")
    subprocess.run(["systemctl", "enable", "linkhold-boot"], check=True, capture_output=True)
    subprocess.Popen([sys.executable, "-c", DIE_BEFORE_COMMIT])
    wait_until(Path("/run/reached").exists, "the last moment before the commit", timeout_s=60)
    os.sync()
    return {"written": profiles()}


@pytest.mark.parametrize(("manager", "profile"), PROFILES.items(), ids=PROFILES)
def test_power_cut_before_the_commit(
    systemd_machine: Maker, manager: Manager, profile: dict[str, str]
) -> None:
    """A power cut in the middle of a change: the next boot has the network as before."""
    machine = systemd_machine(manager, {**files(), **profile})
    assert machine.run(dies_before_commit).value["written"]

    machine.cut_power()
    found = machine.run(after_boot).value

    assert found["files"] == []
    assert not found["journal"], found["said"]
    assert "bond0" not in found["links"]
    assert f"eth0@if4         UP             {NODE_4}/24" in found["addresses"], found
    assert found["answers"], found
