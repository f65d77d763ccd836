"""Makes a machine out of the overlay before systemd starts in it: files, units, NICs and gateway.

``/run/exchange/setup.json`` says what the test wants; see :class:`support.lab.systemd.Machine`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from support.lab import box
from support.topology import GATEWAY_4, NICS, TwoSwitches, ip_batch

PREPARED = Path("/run/disk/prepared")
UNITS = Path("/run/systemd/system")
# What the host's owner configured must not act here.
HIDDEN = (
    *("etc/systemd/system", "etc/systemd/network", "etc/systemd/networkd.conf.d"),
    *("etc/NetworkManager/conf.d", "etc/NetworkManager/system-connections"),
    *("etc/netplan", "etc/modprobe.d", "etc/modules-load.d", "etc/sysctl.d", "etc/udev/rules.d"),
    *("etc/linkhold", "var/lib/linkhold", "var/lib/NetworkManager", "var/lib/systemd"),
    "var/log/journal",
)
SECRET = ("etc/NetworkManager/system-connections/", "etc/netplan/")
# Each costs boot time and nothing here needs it.
MASKED = (
    *("getty.target", "cryptsetup.target", "integritysetup.target", "veritysetup.target"),
    *("dev-hugepages.mount", "dev-mqueue.mount", "proc-sys-fs-binfmt_misc.automount"),
    *("sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "sys-kernel-debug.mount"),
    *("sys-kernel-tracing.mount", "kmod-static-nodes.service", "systemd-logind.service"),
    *("systemd-ask-password-console.path", "systemd-ask-password-wall.path"),
    *("systemd-binfmt.service", "systemd-firstboot.service", "systemd-initctl.socket"),
    *("systemd-journal-flush.service", "systemd-journald-audit.socket"),
    *("systemd-machine-id-commit.service", "systemd-pcrphase-sysinit.service"),
    *("systemd-pcrphase.service", "systemd-random-seed.service", "systemd-repart.service"),
    *("systemd-sysusers.service", "systemd-tmpfiles-clean.timer", "systemd-update-utmp.service"),
    *("systemd-tmpfiles-setup-dev.service", "systemd-tmpfiles-setup.service"),
    *("systemd-update-utmp-runlevel.service", "systemd-user-sessions.service"),
)
GENERATORS = ("netplan",)
ENABLED = {
    "none": (),
    "networkd": (
        ("multi-user.target.wants", "systemd-networkd.service"),
        ("sockets.target.wants", "systemd-networkd.socket"),
        ("network-online.target.wants", "systemd-networkd-wait-online.service"),
        ("dbus-org.freedesktop.network1.service", "systemd-networkd.service"),
    ),
    "NetworkManager": (
        ("multi-user.target.wants", "NetworkManager.service"),
        ("network-online.target.wants", "NetworkManager-wait-online.service"),
        ("dbus-org.freedesktop.nm-dispatcher.service", "NetworkManager-dispatcher.service"),
    ),
}
# All devices would take three seconds more.
COLDPLUG = """
[Service]
ExecStart=
ExecStart=udevadm trigger --action=add --subsystem-match=net --subsystem-match=block
"""
GUEST = """
[Unit]
Description=Scenarios of the lab
DefaultDependencies=no
After=multi-user.target

[Service]
WorkingDirectory={tests}
Environment={environment}
ExecStart={python} -m support.lab.guest
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
TimeoutStopSec=1
"""
GATEWAY = """
[Unit]
Description=DHCP server behind both switches
DefaultDependencies=no
Before=network-pre.target
Wants=network-pre.target

[Service]
ExecStart=ip netns exec {gateway} dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root \
 --port=0 --interface=g0 --no-ping --dhcp-authoritative --dhcp-sequential-ip --log-dhcp \
 --dhcp-range=10.0.0.2,10.0.0.9,255.255.255.0,{lease_s} --dhcp-option=3,{address} \
 --dhcp-leasefile=/var/lib/lab.leases
"""


def main(root: Path) -> None:
    """Prepare the machine below ``root``; the files only before its first boot."""
    setup: dict[str, Any] = json.loads(Path("/run/exchange/setup.json").read_text("utf-8"))
    if not PREPARED.exists():
        _first_boot(root, setup)
        PREPARED.touch()
        os.sync()  # a power cut loses nothing of this
    wired = _wire()
    _write_units(wired, setup)


def _first_boot(root: Path, setup: dict[str, Any]) -> None:
    for name in HIDDEN:
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir(parents=True)
    (root / ".dockerenv").unlink(missing_ok=True)  # systemd would not be the machine's
    release = os.uname().release
    (root / "usr/lib/modules").mkdir(exist_ok=True)
    _link(root / "usr/lib/modules" / release, f"/usr/lib/uml/modules/{release}")
    base = {"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "etc/fstab": ""}
    for name, text in {**base, "etc/hostname": "node\n", **setup["files"]}.items():
        _write(root, name.lstrip("/"), text)
    for where, unit in ENABLED[setup["manager"]]:
        folder = root / "etc/systemd/system"
        _link(folder / where / unit if "wants" in where else folder / where, _library(unit))


def _library(unit: str) -> str:
    return f"/lib/systemd/system/{unit}"


def _write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600 if name.startswith(SECRET) else 0o644)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def _wire() -> TwoSwitches:
    """Build the network as it is when a computer is switched on: cables in, NICs down."""
    made = TwoSwitches.create()
    ip_batch([f"link set {nic} down" for nic in NICS])
    box.WIRED.parent.mkdir()
    box.WIRED.write_text(json.dumps(dataclasses.asdict(made)), encoding="ascii")
    return made


def _write_units(wired: TwoSwitches, setup: dict[str, Any]) -> None:
    UNITS.mkdir(parents=True)
    for unit in MASKED:
        _link(UNITS / unit, "/dev/null")
    for generator in Path("/lib/systemd/system-generators").iterdir():
        if generator.name not in GENERATORS:
            _link(UNITS.parent / "system-generators" / generator.name, "/dev/null")
    _extend("systemd-udev-trigger.service", COLDPLUG)
    passed = ("LAB_TESTS", "LINKHOLD_LAB", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "LANG")
    environment = " ".join(f"{name}={os.environ[name]}" for name in passed)
    tests, python = os.environ["LAB_TESTS"], sys.executable
    _start("lab-guest", GUEST.format(tests=tests, python=python, environment=environment))
    if lease_s := setup["dhcp_lease_s"]:
        gateway = {"gateway": wired.gateway, "address": GATEWAY_4, "lease_s": lease_s}
        _start("lab-gateway", GATEWAY.format(**gateway))


def _extend(unit: str, text: str) -> None:
    path = UNITS / f"{unit}.d" / "lab.conf"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")


def _start(name: str, text: str) -> None:
    unit = UNITS / f"{name}.service"
    unit.write_text(text, encoding="utf-8")
    _link(UNITS / "multi-user.target.wants" / unit.name, str(unit))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
