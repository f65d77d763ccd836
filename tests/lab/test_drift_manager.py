"""Who did it: a network manager that takes a member out of a bond when it starts again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import Box, scenario
from support.topology import ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.systemd import Machine

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
OTHERS = """\
[Match]
Name=eth1

[Network]
LinkLocalAddressing=no
"""
CONFIG = """\
mode: {mode}
mqtt: {{local: false}}
bonds:
  bond0: {{members: [eth0, eth1], detect: mii, confirm_after_s: 2, guard_s: 20}}
"""
SLAVES = Path("/sys/class/net/bond0/bonding/slaves")


@scenario(timeout_s=90)
def restarted(box: Box) -> dict[str, Any]:
    """Make a bond by hand, and restart a manager that has another idea of eth1."""
    net = box.two_switches()
    ip("link", "set", "eth0", "up")
    wait_until(lambda: net.carrier("eth0"), "carrier")
    net.make_bond(miimon_ms=50, primary_reselect="failure")
    agent = _agent(box, _configured(box, "observe"))
    Path("/etc/systemd/network/20-others.network").write_text(OTHERS, encoding="ascii")
    subprocess.run(["systemctl", "restart", "systemd-networkd"], check=True)
    wait_until(lambda: SLAVES.read_text(encoding="ascii").split() == ["eth0"], "taken out")
    wait_until(lambda: _drift("member_left"), "the agent tells", timeout_s=20, every_s=0.5)
    found = _drift("member_left")
    agent.terminate()
    return {"told": found, "code": agent.wait(timeout=10)}


@scenario(timeout_s=150)
def fights(box: Box) -> dict[str, Any]:
    """Let a manager that has another idea of eth1 start again after each repair."""
    net = box.two_switches()
    ip("link", "set", "eth0", "up")
    ip("link", "set", "eth1", "up")
    wait_until(lambda: net.carrier("eth0") and net.carrier("eth1"), "carrier")
    net.give_address("eth0")
    config = _configured(box, "enforce")
    done = subprocess.run(
        [LINKHOLD, "bond", "apply", "--yes", "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    agent = _agent(box, config)
    Path("/etc/systemd/network/05-others.network").write_text(OTHERS, encoding="ascii")
    for number in range(1, 4):
        subprocess.run(["systemctl", "reset-failed", "systemd-networkd"], check=False)
        subprocess.run(["systemctl", "restart", "systemd-networkd"], check=True)
        wait_until(lambda: SLAVES.read_text(encoding="ascii").split() == ["eth0"], "taken out")
        kind, count = ("bond.repaired", number) if number < 3 else ("bond.config_conflict", 1)
        _wait_event(kind, count)
    conflict, failed = _events("bond.config_conflict"), _events("bond.repair_failed")
    answers = net.answers()
    agent.terminate()
    return {
        "conflict": conflict,
        "failed": failed,
        "answers": answers,
        "code": agent.wait(timeout=10),
    }


def test_a_manager_that_undoes_repairs_wins_and_is_named(
    systemd_machine: Callable[..., Machine],
) -> None:
    """R20: after the second repair that systemd-networkd undid there is no third one."""
    value: dict[str, Any] = systemd_machine("networkd").run(fights).value

    assert value["conflict"][0]["what"] == "eth1 is not in bond0"
    assert value["conflict"][0]["by"].startswith("systemd-networkd started ")
    assert "networkd configures eth1" in value["conflict"][0]["by"]
    assert value["failed"] == []
    assert value["answers"]
    assert value["code"] == 0


def _wait_event(kind: str, count: int) -> None:
    wait_until(lambda: len(_events(kind)) >= count, kind, timeout_s=40, every_s=0.5)


def _configured(box: Box, mode: str) -> Path:
    config = box.tmp / "linkhold.yaml"
    config.write_text(CONFIG.format(mode=mode), encoding="ascii")
    os.environ |= {
        "LINKHOLD_RUN_DIR": str(box.tmp / "run"),
        "LINKHOLD_STATE_DIR": str(box.tmp / "state"),
    }
    return config


def _agent(box: Box, config: Path) -> subprocess.Popen[bytes]:
    agent = subprocess.Popen([LINKHOLD, "agent", "--config", str(config)])
    wait_until((box.tmp / "run" / "state.json").exists, "the agent is ready", timeout_s=30)
    return agent


def _drift(kind: str) -> list[dict[str, Any]]:
    return [data for data in _events("bond.drift") if data["kind"] == kind]


def _events(type_: str) -> list[dict[str, Any]]:
    said = subprocess.run(
        [LINKHOLD, "events", "--json"], capture_output=True, text=True, check=True, timeout=30
    )
    events = [json.loads(line) for line in said.stdout.splitlines()]
    return [event["data"] for event in events if event["type"] == type_]


def test_a_manager_that_just_started_is_named(systemd_machine: Callable[..., Machine]) -> None:
    """R20, R22: systemd-networkd restarted and took eth1 out: both facts stand in the event."""
    value: dict[str, Any] = systemd_machine("networkd").run(restarted).value
    by = value["told"][0]["by"]

    assert by.startswith("systemd-networkd started ")
    assert by.endswith(" s before; networkd configures eth1")
    assert value["code"] == 0
