"""What happens to traffic over bonds of three makes, in the kernel lab: the scenarios."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.echo_stream import EchoStream
from support.host_state import take
from support.lab import Box, scenario
from support.probes import Probe
from support.topology import GATEWAY_4, GATEWAY_6, NODE_4, NODE_6, Bond, TwoSwitches, ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
ROUTED = "172.16.0.1"
CONFIG = """
mode: enforce
mqtt: {local: false}
bonds: {bond0: {members: [eth0, eth1], confirm_after_s: 2}}
"""
MAKES = ("linkhold", "unattended", "miimon", "arp")
"""linkhold with its agent, its bond without one, miimon 100 as most guides, kernel ARP monitor."""


@contextmanager
def bonded(box: Box, make: str) -> Iterator[tuple[TwoSwitches, Bond]]:
    """Build the network and a bond of one make; an agent guards it where that belongs to it."""
    net = box.two_switches()
    if make == "miimon":
        yield net, net.make_bond(miimon_ms=100)
    elif make == "arp":
        options: dict[str, Any] = {"arp_interval": 100, "arp_ip_target": GATEWAY_4}
        yield net, net.make_bond(miimon_ms=0, arp_validate="all", **options)
    else:
        net.give_address("eth0")
        config = _configured(box)
        subprocess.run([LINKHOLD, "bond", "apply", "--yes", "--config", config], check=True)
        bond = Bond("bond0", None)
        if make == "linkhold":
            with agent(box, config):
                yield net, bond
        else:
            yield net, bond


def _configured(box: Box) -> str:
    config = box.tmp / "linkhold.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    box.tmp.chmod(0o755)
    names = {"LINKHOLD_RUN_DIR": "run", "LINKHOLD_STATE_DIR": "state"}
    os.environ |= {name: str(box.tmp / folder) for name, folder in names.items()}
    return str(config)


@contextmanager
def agent(box: Box, config: str) -> Iterator[None]:
    """Run the agent until both paths are known alive, and then while the ``with`` lasts."""
    running = subprocess.Popen([LINKHOLD, "agent", "--config", config])
    try:
        wait_until(lambda: _both_alive(box.tmp / "run/state.json"), "paths alive", timeout_s=30)
        time.sleep(3)
        yield
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(timeout=10)


def _both_alive(state: Path) -> bool:
    if not state.exists():
        return False
    members = json.loads(state.read_bytes())["detail"]["bonds"]["bond0"]["members"]
    return {member["path"] for member in members.values()} == {"alive"}


@scenario(timeout_s=120)
def cable(box: Box, make: str, rounds: int) -> list[float]:
    """Pull the active member's cable under 200 probes/s each way; return each outage in ms."""
    found = []
    with bonded(box, make) as (net, bond):
        for _ in range(rounds):
            number = 0 if bond.active == "eth0" else 1
            with net.probe(rate_hz=200) as probe:
                time.sleep(0.5)
                net.pull_cable(number)
                time.sleep(1.5)
            found.append(probe.traffic.outage_ms)
            net.plug_cable(number)
            time.sleep(1.5)
    return found


@scenario(timeout_s=120)
def switch(box: Box, make: str, rounds: int) -> list[float]:
    """Let the active member's switch forward nothing for 6 s, link up; return each outage."""
    found = []
    with bonded(box, make) as (net, bond):
        for _ in range(rounds):
            number = 0 if bond.active == "eth0" else 1
            with net.probe(rate_hz=200) as probe:
                time.sleep(0.5)
                net.kill_switch(number)
                time.sleep(6)
                net.revive_switch(number)
                time.sleep(0.5)
            found.append(probe.traffic.outage_ms)
            time.sleep(3)
    return found


@scenario(timeout_s=120)
def fail_back(box: Box, make: str, wait_s: float) -> dict[str, Any]:
    """Reboot the primary's switch: no link for 1.5 s, then link without forwarding for 2.5 s.

    Probes run from the time after the failover until traffic may be back on the primary.
    """
    with bonded(box, make) as (net, bond):
        if make in {"miimon", "arp"}:
            ip("link", "set", "bond0", "type", "bond", "primary", "eth0")
        wait_until(lambda: bond.active == "eth0", "the primary carries", timeout_s=10)
        net.kill_switch(0)
        net.pull_cable(0)
        time.sleep(1.5)
        with net.probe(rate_hz=200) as probe:
            net.plug_cable(0)
            time.sleep(2.5)
            net.revive_switch(0)
            time.sleep(wait_s)
        back = bond.active == "eth0"
    return {"lost": probe.traffic.lost, "outage_ms": probe.traffic.outage_ms, "back": back}


@scenario(timeout_s=120)
def move(box: Box, family: int) -> dict[str, Any]:
    """Make a live NIC a member of a bond, under probes, echoes and a stream to a routed net."""
    net = box.two_switches()
    net.give_address("eth0")
    ip("addr", "add", f"{ROUTED}/32", "dev", "lo", ns=net.gateway)
    ip("route", "add", "172.16.0.0/16", "via", GATEWAY_4, "metric", "50")
    ip("route", "add", "default", "via", GATEWAY_4, "table", "100")
    ip("rule", "add", "iif", "eth0", "lookup", "100")
    ip("link", "set", "eth0", "mtu", "1400")
    wait_until(lambda: net.answers(ROUTED), "the routed net answers")
    config = _configured(box)
    addresses = (NODE_4, ROUTED) if family == 0 else (NODE_6, GATEWAY_6)
    stream = Probe((None, net.gateway), addresses, 200) if family != 4 else net.probe(rate_hz=200)
    time.sleep(2)  # duplicate address detection
    before = take()
    with EchoStream(net.gateway, GATEWAY_4) as echo, stream as probe:
        time.sleep(0.3)
        subprocess.run([LINKHOLD, "bond", "apply", "--yes", "--config", config], check=True)
        time.sleep(0.3)
    subprocess.run([LINKHOLD, "bond", "remove", "bond0", "--yes"], check=True)
    time.sleep(2)
    return {
        "sent": probe.traffic.out.sent + probe.traffic.back.sent,
        "lost": probe.traffic.lost,
        "worst_echo_ms": echo.worst_ms,
        "same_after_removal": take() == before,
    }
