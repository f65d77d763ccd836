"""What a diagnosis says of faults of a real bond, one after the other in one guest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from support.lab import Box, scenario
from support.lab.verdicts import check_verdicts
from support.topology import ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.host import Lab


def _diagnosed() -> dict[str, Any]:
    from linkhold.diagnose import Plan, Sources, diagnose, document
    from support.ill_network import Resolvers, no_training

    sources = Sources(reader=Resolvers(), training=no_training)
    plan = Plan(since_s=1e-6, vendor="")
    return document(asyncio.run(diagnose(plan, sources)))


@scenario(timeout_s=90)
def faults_of_a_bond(box: Box) -> dict[str, Any]:
    """Make each fault, diagnose, and take it back."""
    net = box.two_switches()
    bond = net.make_bond(miimon_ms=50, primary_reselect="failure")
    told = {"healthy": _diagnosed()}

    def once(name: str, fault: Callable[[int], None], cure: Callable[[int], None]) -> None:
        number = int(bond.active[-1])
        at = number if "active" in name else 1 - number
        fault(at)
        told[name] = _diagnosed()
        cure(at)
        wait_until(lambda: net.carrier(f"eth{at}"), "carrier")

    once("standby cable", net.pull_cable, net.plug_cable)
    once("standby switch", net.kill_switch, net.revive_switch)
    once("active switch", net.kill_switch, net.revive_switch)
    standby = "eth1" if bond.active == "eth0" else "eth0"
    ip("link", "set", standby, "nomaster")
    told["member taken out"] = _diagnosed()
    ip("link", "set", standby, "down")
    ip("link", "set", standby, "master", "bond0")
    for nic in ("eth0", "eth1"):
        ip("link", "set", nic, "down")
    wait_until(lambda: not net.carrier("bond0"), "no carrier")
    told["members set down"] = _diagnosed()
    for nic in ("eth0", "eth1"):
        ip("link", "set", nic, "up")
    wait_until(net.answers, "an answer")
    ip("link", "set", "bond0", "type", "bond", "miimon", "0")
    told["miimon 0"] = _diagnosed()
    once("active cable, miimon 0", net.pull_cable, net.plug_cable)
    return told


FAULTS = {
    "healthy": ("healthy", "nothing", "nothing is broken"),
    "standby cable": ("degraded", "cable", "bond0 has lost a leg"),
    "standby switch": ("degraded", "switch", "(standby member of bond0) forwards nothing"),
    "active switch": ("down", "switch", "(active member of bond0) forwards nothing"),
    "member taken out": ("degraded", "host", "bond0 has one member only"),
    "members set down": ("down", "host", "eth0 and eth1, of the 2 members of bond0, are set down"),
    "miimon 0": ("degraded", "host", "no link monitoring (miimon 0)"),
    "active cable, miimon 0": ("down", "cable", "which has no carrier"),
}


def test_faults_of_a_bond_come_out_with_their_place(lab: Lab) -> None:
    """A leg lost, a switch dead behind a live link, no monitoring: state, place and words."""
    check_verdicts(lab.run(faults_of_a_bond).value, FAULTS)
