"""The whole role against a machine with a kernel and a systemd of its own, over SSH."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.containers import node_files
from support.lab.machine import LabUnavailable
from support.lab.systemd import Machine
from support.rollout_guest import ADDRESS, is_gone, is_installed, opens, tap_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.rollout import Ran

    from .conftest import Made, Site

CHANGE = {"linkhold_keepalive": {"profile": "custom", "time_s": 123}}


@dataclass(frozen=True)
class Node:
    """A machine of the lab, and the controller that reaches it."""

    machine: Machine
    site: Site

    def play(self, name: str, *options: str, **extra: object) -> Ran:
        """Run a playbook."""
        return self.site.controller.play(name, *options, **extra)

    def look(self) -> dict[str, Any]:
        """Return how linkhold is there."""
        found: dict[str, Any] = self.machine.run(is_installed).value
        return found


@pytest.fixture(scope="module")
def node(made: Made, site: Site) -> Iterator[Node]:
    """A booted machine whose sshd listens; pip's work is done already, as in test_service."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("no TAP devices here (/dev/net/tun)")
    keys = site.controller.public_key, site.controller.key.read_text("ascii")
    files = {f"/{name}": text for name, text in node_files(*keys, "0.0.0.0").items()}
    tap = tap_on(site.switch.namespace)
    machine = Machine("none", files, tap=tap)
    try:
        machine.boot()
        machine.run(opens, opt=str(made.layer / "opt/linkhold"))
        site.controller.inventory(
            {"guest": {"ansible_host": ADDRESS, **site.broker.issue("guest")}},
            ["guest"],
            linkhold_wheel=str(made.wheel),
            linkhold_disk_least_mb=50,
            linkhold_site="lab",
            linkhold_mqtt=site.broker.mqtt(),
            linkhold_gate_settle_s=1,
            linkhold_gate_timeout_s=120,
            linkhold_gate_observer=str(site.broker.observer()),
        )
        yield Node(machine, site)
    except LabUnavailable as reason:
        if os.environ.get("LINKHOLD_REQUIRE_LAB"):
            raise
        pytest.skip(f"no kernel lab: {reason}")
    finally:
        machine.discard()
        os.close(tap)


def test_first_run(node: Node) -> None:
    """The role installs, hands out the key, and passes its gate with the fleet's broker."""
    ran = node.play("site")

    assert ran.code == 0, ran.said
    found = node.look()
    assert (found["failed"], found["node"], found["network"]) == ("", "lab/guest", "ok")
    assert found["leg_b"].startswith("up")
    assert (found["key"], found["enabled"]) == ("600 root", "enabled\nenabled")
    assert found["keepalive"] == "7200"
    assert found["left"] == "", "what was carried there for the installation stays nowhere"


def test_second_run(node: Node) -> None:
    """A second run changes nothing, and the agent is not even reloaded."""
    before = node.look()

    ran = node.play("site", linkhold_gate=False)

    assert (ran.code, ran.counts("changed")) == (0, {"guest": 0}), ran.said
    assert node.look() == before


def test_enforce(node: Node) -> None:
    """In mode enforce, once agreed to, the node is what the variables say."""
    agreed = {"linkhold_mode": "enforce", "linkhold_enforce_confirmed": True}

    parts = "--tags=linkhold_configure,linkhold_run,linkhold_gate"
    planned = node.play("site", "--check", "--diff", parts, **agreed, **CHANGE)
    assert planned.counts("changed") == {"guest": 2}, planned.said
    assert "+mode: enforce" in planned.said
    assert node.look()["keepalive"] == "7200"

    ran = node.play("site", parts, **agreed, **CHANGE)
    assert (ran.code, ran.counts("changed")) == (0, planned.counts("changed")), ran.said
    assert node.look()["keepalive"] == "123"


def test_removal(node: Node) -> None:
    """Uninstall takes all away and restores the host; configuration and history stay."""
    ran = node.play("uninstall", linkhold_restore_host=True)

    assert (ran.code, ran.counts("changed")) == (0, {"guest": 1}), ran.said
    gone = {"left": "", "kept": [True, True], "opt": False, "keepalive": "7200"}
    assert node.machine.run(is_gone).value == gone
