"""``linkhold bond plan`` in the lab: what a real kernel tells of the NICs that shall be members."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.bond_change import Host
from support.lab import Box, scenario
from support.topology import ip, ip_batch, wait_until

if TYPE_CHECKING:
    from support.lab.host import Lab

TUNNELS = {
    "gre1": "type gretap local 10.0.0.2 remote 10.0.0.1 dev eth0",
    "ip1": "type ipip local 10.0.0.2 remote 10.0.0.1 dev eth0",
    "vx1": "type vxlan id 5 remote 10.0.0.1 dstport 4789 dev eth1",
}


@scenario(timeout_s=60)
def planned(box: Box) -> dict[str, Any]:
    """Plan with tunnels on the members, without them, and with a live NIC that is dead."""
    net = box.two_switches()
    ip_batch([f"link set {nic} up" for nic in ("eth0", "eth1")])
    net.give_address("eth0")
    wait_until(net.answers, "the gateway answers")
    host = Host(box.tmp)
    told = {}

    def plan(case: str) -> None:
        (told[case],) = json.loads(host.run("plan", "--json").stdout)

    for name, how in TUNNELS.items():
        ip("link", "add", name, *how.split())
    plan("tunnels")
    for name in TUNNELS:
        ip("link", "del", name)
    plan("none")
    net.kill_switch(0)
    plan("dead switch")
    net.pull_cable(0)
    wait_until(lambda: not net.carrier("eth0"), "eth0 has no link")
    plan("no link")
    return told


def test_tunnels_on_a_member_are_refused_and_a_dead_live_nic_is_told(lab: Lab) -> None:
    """A tunnel with ``dev eth0`` stays on eth0; a change that must fail is foretold."""
    told = lab.run(planned).value

    reasons = {one["subject"]: one["reason"] for one in told["tunnels"]["refusals"]}
    assert "gre1 (gretap)" in reasons["eth0"], reasons
    assert "ip1 (ipip)" in reasons["eth0"]
    assert "vx1 (vxlan)" in reasons["eth1"]
    assert told["none"]["refusals"] == []
    assert told["none"]["warnings"] == []
    assert any("no gateway answers now through eth0" in x for x in told["dead switch"]["warnings"])
    assert any("eth0 carries the addresses and has no" in x for x in told["no link"]["warnings"])
