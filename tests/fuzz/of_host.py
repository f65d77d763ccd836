"""What a look at a host reads: /proc, /sys and /etc, whose texts users of the host write."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuzz import scratch
from fuzz.samples_host import (
    CLOUD_CFG,
    CNI,
    COMMAND,
    ENVIRON,
    INTERFACES,
    MOUNTS,
    NEIGH_STAT,
    NETWORKD,
    PROFILE,
    RELEASE,
    STAT,
    STATUS,
    SYSCTLS,
)
from fuzz.target import Target
from linkhold.client import kin, launcher
from linkhold.client.data import machine
from linkhold.daemon import operator_holds
from linkhold.door import Peer
from linkhold.inside import sysctls
from linkhold.install.hosts import host_of
from linkhold.model import HostError
from linkhold.model.look import Look
from linkhold.sensors import hwmon, power_supply, uplink_probes
from linkhold.survey import (
    clients,
    cloud,
    cloud_init,
    disks,
    firewall,
    holding,
    job_settings,
    jobs,
    mounts,
    namespaces,
    networkd,
    networkmanager,
    nic,
    owners,
    pci,
    pcie,
    processes,
    session,
    socket_owners,
    sysctl_owners,
    tables,
    training,
)
from linkhold.survey.files import Reader
from linkhold.survey.root import look as look_at_root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A root folder in which ``files`` are what is tried; ``look`` reads them."""

    title: str
    reads: tuple[str, ...]
    files: tuple[str, ...]
    look: Callable[[Path], object]
    samples: Sequence[bytes]
    refusals: tuple[type[BaseException], ...] = ()
    beside: tuple[tuple[str, bytes], ...] = ()

    def target(self, root: Path) -> Target:
        """Return a target that writes the bytes to every file, in a root folder of its own."""
        for name, content in self.beside:
            put(root, name, content)

        def call(data: bytes) -> None:
            for name in self.files:
                put(root, name, data)
            self.look(root)

        return Target(self.title, self.reads, call, lambda: self.samples, self.refusals)


def put(root: Path, name: str, data: bytes) -> None:
    """Write a file of a host."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def trainers(root: Path) -> None:
    """Look for training and everything that hangs on it."""
    reader = Reader(root)
    found = training.find(reader)
    for job in found.jobs:
        job_settings.look(reader, found, job)
    jobs.look(reader, ("eth0",))
    processes.running(reader, frozenset({"python", "dhclient"}))
    socket_owners.threads(reader, 77)
    namespaces.find(reader)


def disk(root: Path) -> None:
    """Look at what the root file system lies on."""
    look_at_root(Reader(root), lambda _: "eth0")
    list(mounts.parse(Reader(root).text("/proc/self/mountinfo") or ""))
    disks.remote(Reader(root), "8:1", "/dev/sda1")


def owner(root: Path) -> None:
    """Ask every manager of networks whether an interface is its own."""
    reader = Reader(root)
    owners.Owners(reader, frozenset()).of("eth0", 2)
    networkd.owner(reader, "eth0", 2)
    networkmanager.owner(reader, "eth0", 2)
    programs = processes.running(reader, frozenset({"dhclient", "dhcpcd", "wickedd", "connmand"}))
    clients.dhclient(programs, "eth0")
    clients.dhcpcd(reader, programs, "eth0")
    clients.wicked(reader, programs, "eth0")
    clients.connman(reader, programs, "eth0")
    firewall.mentions(["eth0"], root)
    holding.dhcp_client(2, root / "run/systemd/netif")
    holding.networkd_files(root / "run/systemd/netif")


def cards(root: Path) -> None:
    """Look at a NIC in sysfs."""
    reader = Reader(root)
    found = nic.look(reader, "eth0", None)
    if found is not None:
        cloud.look(reader, found)
    pci.look(reader)
    pcie.lanes(reader, "eth0")


def supplies(root: Path) -> None:
    """Read supplies and the inputs of power supply units."""
    power_supply.supplies(root / "sys/class/power_supply")
    hwmon.inputs(root / "sys/class/hwmon")


def own_process(root: Path) -> None:
    """Read what a job reads of its own process and its parents."""
    kin.family(77, root / "proc")
    operator_holds.asker(Peer(77, os.getuid(), frozenset()), root / "proc")
    session.client(77, root)
    machine._number(root / "proc/77/stat")
    with scratch.stand_in(
        launcher, "_read", lambda pid, name: (root / f"proc/77/{name}").read_bytes()
    ):
        launcher._started(77)
        launcher._caught(77)
        launcher._parent(77)


def values(root: Path) -> None:
    """Read sysctls of this host and of another namespace."""
    errors: dict[str, str] = {}
    sysctls.read(["tcp_keepalive_time"], errors, str(root / "proc/sys/net/ipv4"))
    uplink_probes.drops_answers("eth0", root)
    list(tables.fills(Reader(root), Look()))


def sysctl_files(root: Path) -> None:
    """Ask who sets a sysctl."""
    sysctl_owners.owners(Reader(root), "net.ipv4.tcp_keepalive_time")


def release(root: Path) -> None:
    """Ask which kind of host this is."""
    host_of((root / "etc/os-release").read_text(encoding="utf-8", errors="replace"))


NET = "sys/class/net/eth0"
PLACES = (
    Place(
        "/proc of training",
        (
            "survey/training.py",
            "survey/jobs.py",
            "survey/processes.py",
            "survey/namespaces.py",
            "survey/socket_owners.py",
        ),
        (
            *tuple(
                f"proc/77/{name}"
                for name in (
                    "stat",
                    "environ",
                    "cmdline",
                    "status",
                    "maps",
                    "comm",
                    "cgroup",
                    "net/tcp",
                )
            ),
            "etc/nccl.conf",
            "etc/environment",
        ),
        trainers,
        (STAT, ENVIRON, COMMAND, STATUS),
    ),
    Place(
        "mounts",
        ("survey/mounts.py", "survey/root.py", "survey/disks.py"),
        ("proc/self/mountinfo", "sys/dev/block/8:1/uevent", "proc/cmdline"),
        disk,
        (MOUNTS, MOUNTS.replace(b"8:1", b"8:" + b"1" * 300)),
    ),
    Place(
        "who owns an interface",
        (
            "survey/networkd.py",
            "survey/networkmanager.py",
            "survey/ifupdown.py",
            "survey/interfaces.py",
            "survey/clients.py",
            "survey/holding.py",
        ),
        (
            "etc/network/interfaces",
            "etc/network/interfaces.d/x",
            "run/systemd/netif/links/2",
            "run/systemd/netif/leases/2",
            "etc/systemd/network/10-x.network",
            "run/NetworkManager/devices/2",
            "etc/NetworkManager/system-connections/x.nmconnection",
            "etc/dhcpcd.conf",
            "proc/77/cmdline",
            "proc/77/comm",
            "etc/nftables.conf",
            "etc/sysconfig/network-scripts/ifcfg-eth0",
        ),
        owner,
        (INTERFACES, PROFILE, NETWORKD, b"source " + b"/x*" * 2000),
        beside=(("sbin/ifup", b""), ("usr/sbin/ifup", b"")),
    ),
    Place(
        "a NIC in sysfs",
        ("survey/nic.py", "survey/pcie.py", "survey/pci.py", "survey/files.py"),
        (
            *tuple(
                f"{NET}/{name}"
                for name in (
                    "ifindex",
                    "address",
                    "type",
                    "uevent",
                    "dev_id",
                    "flags",
                    "speed",
                    "device/current_link_speed",
                    "device/max_link_width",
                    "device/uevent",
                )
            ),
            "sys/class/dmi/id/sys_vendor",
            "sys/class/dmi/id/product_name",
        ),
        cards,
        (b"2\n", b"02:00:00:00:00:01\n", b"16.0 GT/s PCIe\n", b"DEVTYPE=vlan\nDRIVER=igb\n"),
    ),
    Place(
        "supplies",
        ("sensors/power_supply.py", "sensors/hwmon.py"),
        (
            *tuple(
                f"sys/class/power_supply/AC/{name}"
                for name in ("online", "type", "scope", "status", "capacity", "time_to_empty_now")
            ),
            "sys/class/hwmon/hwmon0/in1_input",
            "sys/class/hwmon/hwmon0/name",
        ),
        supplies,
        (b"1\n", b"Mains\n", b"-231000\n", b"--1", b"Discharging\n"),
        beside=(("sys/class/hwmon/hwmon0/in1_label", b"vin\n"),),
    ),
    Place(
        "/proc of ourselves",
        (
            "client/kin.py",
            "client/launcher.py",
            "client/data/machine.py",
            "daemon/operator_holds.py",
            "survey/session.py",
        ),
        tuple(f"proc/77/{name}" for name in ("stat", "status", "environ", "loginuid")),
        own_process,
        (STAT, STATUS, ENVIRON, b"1000", STAT.replace(b"S 1 ", b"S " + b"1" * 5000 + b" ")),
    ),
    Place(
        "sysctls",
        ("inside/sysctls.py", "survey/tables.py"),
        (
            "proc/sys/net/ipv4/tcp_keepalive_time",
            "proc/sys/net/ipv4/conf/all/rp_filter",
            "proc/sys/net/ipv4/neigh/default/gc_thresh3",
            "proc/net/stat/arp_cache",
            "proc/sys/net/netfilter/nf_conntrack_max",
            "proc/sys/net/netfilter/nf_conntrack_count",
        ),
        values,
        (b"7200\n", NEIGH_STAT),
    ),
    Place(
        "who sets a sysctl",
        ("survey/sysctl_owners.py",),
        (
            "etc/sysctl.d/x.conf",
            "etc/sysctl.conf",
            "etc/tuned/active_profile",
            "etc/tuned/x/tuned.conf",
            "etc/cni/net.d/x.conflist",
        ),
        sysctl_files,
        (SYSCTLS, CNI, b"x y\n"),
    ),
    Place(
        "cloud-init",
        ("survey/cloud_init.py",),
        ("etc/cloud/cloud.cfg", "etc/cloud/cloud.cfg.d/x.cfg", "proc/cmdline"),
        lambda root: cloud_init.look(Reader(root)),
        (CLOUD_CFG,),
    ),
    Place(
        "the kind of host",
        ("cli/setup.py", "install/hosts.py"),
        ("etc/os-release",),
        release,
        (RELEASE,),
        (HostError,),
    ),
)
