"""What a diagnosis says of a host: full tables, a wrong clock, and what its kernel has logged."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import Box, kernel, scenario
from support.lab.verdicts import check_verdicts
from support.topology import ip, ip_batch, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.lab.host import Lab

NEIGHBOURS = "/proc/sys/net/ipv4/neigh/default/gc_thresh"
CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack_max"
TABLE = 32
SLACK_S = 0.5
"""The command looks at its clock a little later than we at ours."""
PEER = "10.0.0.1"
FOLLOW = "filter add dev eth0 egress protocol ip matchall action ct commit"
"""Conntrack by the traffic control: the guest's nf_tables has bridges only."""

Told = dict[str, Any]


def _diagnosed(**plan: Any) -> Told:
    from linkhold.cli import diagnose_sources
    from linkhold.diagnose import Aim, Plan, Sources, diagnose, document
    from support.ill_network import Resolvers, no_training

    sources = Sources(Resolvers(), no_training, clock=diagnose_sources.clock)
    aims = (Aim("store", "icmp", "10.0.0.127"),) if plan.pop("store", False) else ()
    wanted = Plan(aims, **{"since_s": 1e-6, "vendor": "", **plan})
    return document(asyncio.run(diagnose(wanted, sources)))


@contextmanager
def _first_namespace() -> Iterator[None]:
    """Be in the kernel's first network namespace, with eth0 and a peer that is a whole subnet.

    The limits of the tables stand there only. It is hidden by the scenario's own /proc.
    """
    ctypes.CDLL(None, use_errno=True).umount2(b"/proc", 0)
    first = os.open("/proc/1/ns/net", os.O_RDONLY)
    kernel.mount("proc", "/proc")
    with kernel.inside(f"/proc/self/fd/{first}"):
        ip("netns", "add", "peer")
        try:
            ip_batch([
                "link add eth0 type veth peer name p0 netns peer", "link set eth0 up",
                "addr add 10.0.0.2/24 dev eth0", f"route add default via {PEER}",
            ])  # fmt: skip
            ip_batch(
                [f"addr add {PEER}/24 dev p0", "link set lo up", "link set p0 up",
                 "route add local 10.0.0.64/26 dev lo"],
                ns="peer",
            )  # fmt: skip
            wait_until(lambda: "LOWER_UP" in ip("-o", "link", "show", "eth0"), "carrier")
            yield
        finally:
            ip("link", "del", "eth0")


@contextmanager
def _written(values: dict[str, int]) -> Iterator[None]:
    old = {name: Path(name).read_text() for name in values}
    for name, value in values.items():
        Path(name).write_text(str(value))
    try:
        yield
    finally:
        for name, text in reversed(old.items()):
            Path(name).write_text(text)


def _speak_to(addresses: list[tuple[str, int]]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaker:
        for address in addresses:
            with suppress(OSError):  # ENOBUFS, EPERM: that is a full table
                speaker.sendto(b"x", address)
            time.sleep(0.002)


@scenario(timeout_s=60, modules=("sch_ingress", "cls_matchall", "act_ct"))
def faults_of_a_host(box: Box) -> dict[str, Told]:
    """Fill each table as traffic does, then put the clock back."""
    told = {}
    with _first_namespace():
        told["healthy"] = _diagnosed(store=True)
        ip("neigh", "flush", "dev", "eth0")
        with _written({f"{NEIGHBOURS}{n}": size for n, size in ((1, 2), (2, TABLE), (3, TABLE))}):
            _speak_to([(f"10.0.0.{n}", 9) for n in range(64, 126)])
            told["neighbour table full"] = _diagnosed(store=True)
        ip("neigh", "flush", "dev", "eth0")
        for command in ("qdisc add dev eth0 clsact", FOLLOW):
            subprocess.run(["tc", *command.split()], check=True)
        with _written({CONNTRACK: TABLE}):
            _speak_to([(PEER, port) for port in range(5000, 5000 + 2 * TABLE)])
            told["conntrack full"] = _diagnosed(store=True)
        subprocess.run(["tc", "qdisc", "del", "dev", "eth0", "clsact"], check=True)
        now, began = time.time(), time.monotonic()
        time.clock_settime(time.CLOCK_REALTIME, 1.5e9)  # 2017: an empty battery on the board
        told["clock wrong"] = _diagnosed()
        time.clock_settime(time.CLOCK_REALTIME, now + time.monotonic() - began)
    return told


MLX5 = "mlx5_core 0000:4b:00.0"
LINES = {
    "virtual NIC driver crashed": (
        "virtio_net virtio0 eth0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5020 ms",
    ),
    "ena driver": (
        "ena 0000:00:05.0 eth0: Keep alive watchdog timeout.",
        "ena 0000:00:05.0 eth0: Trigger reset is on",
    ),
    "ixgbe driver": (
        "ixgbe 0000:4b:00.0 eth0: Detected Tx Unit Hang",
        "ixgbe 0000:4b:00.0 eth0: initiating reset due to tx timeout",
    ),
    "mlx5 firmware": (
        "mlx5_core 0000:4b:00.0 eth0: Link down",
        f"{MLX5}: poll_health:728:(pid 0): device's health compromised - reached miss count",
    ),
    "mlx5 module": (
        f"{MLX5}: Port module event[error]: module 0, Cable error, Bad or shorted cable/module",
    ),
    "card off the bus": (
        "igb 0000:01:00.0 eth0: PCIe link lost",
        "igb 0000:01:00.0: removed PHC on eth0",
    ),
    "processor stuck in a driver": (
        "mlx5_core 0000:4b:00.0 eth0: TX timeout detected",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [swapper/3:0]",
        "RIP: 0010:mlx5e_napi_poll+0x1b/0x6f0 [mlx5_core]",
    ),
}  # fmt: skip


@scenario(timeout_s=90)
def kernel_lines(box: Box) -> dict[str, Told]:
    """Have the reader find each driver's lines; the NIC they are about goes dark, as it would.

    Last, a loose contact: the bonding driver itself says what it sees.
    """
    net = box.two_switches()
    net.give_address("eth0")
    told = {"healthy before": _diagnosed()}
    for name, lines in LINES.items():
        began = time.monotonic()
        net.pull_cable(0)
        for line in lines:
            Path("/dev/kmsg").write_text(f"<3>{line}\n")
        told[name] = _diagnosed(since_s=time.monotonic() - began + SLACK_S, any_facility=True)
        net.plug_cable(0)
        wait_until(lambda: net.carrier("eth0"), "carrier")
        time.sleep(0.7)
    ip("addr", "flush", "dev", "eth0")
    began = time.monotonic()
    net.make_bond(miimon_ms=20)
    for _ in range(3):
        net.pull_cable(1)
        time.sleep(0.15)
        net.plug_cable(1)
        time.sleep(0.15)
    told["link flaps"] = _diagnosed(since_s=time.monotonic() - began + 2 * SLACK_S)
    return told


FAULTS = {
    "neighbour table full": (
        "degraded",
        "host",
        f"table is full ({TABLE} of {TABLE}, nei",
    ),
    "conntrack full": ("degraded", "host", "connection table of this host's firewall is full"),
    "clock wrong": ("degraded", "host", "the clock is wrong"),
    "virtual NIC driver crashed": ("down", "driver", "eth0 (virtio_net): its driver hangs"),
    "ena driver": ("down", "nic", "eth0 (ena): its firmware has failed"),
    "ixgbe driver": ("down", "driver", "eth0 (ixgbe): its driver hangs"),
    "mlx5 firmware": ("down", "nic", "its firmware has failed"),
    "mlx5 module": ("down", "cable", "its cable or transceiver has a fault"),
    "card off the bus": ("down", "nic", "eth0 (igb): the card has gone from the bus"),
    "processor stuck in a driver": ("down", "driver", "a processor is stuck in its driver"),
    "link flaps": ("degraded", "cable", "eth1 went down 3 times"),
}


def test_faults_of_a_host_come_out_with_their_place(lab: Lab) -> None:
    """Full tables, a wrong clock, drivers that crash: state, place and words of the verdict."""
    told = lab.run(faults_of_a_host).value | lab.run(kernel_lines).value

    healthy = [told.pop(name) for name in ("healthy", "healthy before")]

    assert [one["state"] for one in healthy] == ["healthy"] * 2, healthy
    check_verdicts(told, FAULTS)
