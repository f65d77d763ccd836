"""A bond is made from its record, by a boot or by a repair, whatever became of the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators import remake
from support import furnish
from support.bond_change import Command, Host
from support.lab import Box, scenario
from support.topology import NODE_4, TwoSwitches, ip, ip_batch, wait_until

if TYPE_CHECKING:
    from support.bond_change import Done
    from support.lab.host import Lab

BOOT = """
import sys
from linkhold.actuators import boot
for name, value in {times}.items():
    setattr(boot, name, value)
sys.exit(boot.main())
"""
SOON = {"PATIENCE_S": 5.0, "TURN_S": 1.0, "ALONE_S": 4.0, "MEMBERS_S": 1.0}


def made(box: Box, **options: Any) -> tuple[TwoSwitches, Host]:
    """Make the bond as an operator does."""
    net = box.two_switches()
    furnish.quiet_dad()
    net.give_address("eth0")
    furnish.settle()
    host = Host(box.tmp, **options)
    done = host.apply(brief=True)
    assert done.code == 0, done.said
    return net, host


def boot(**times: float) -> dict[str, Any]:
    """Take the bond away, as a boot does, and run the boot's oneshot with other times."""
    if Path("/sys/class/net/bond0").exists():
        ip("link", "del", "bond0")
    code = BOOT.format(times={**SOON, **times})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return {"code": done.returncode, "said": done.stdout + done.stderr}


def seen(net: TwoSwitches) -> dict[str, Any]:
    """Return what there is of the network."""
    bond = Path("/sys/class/net/bond0/bonding")
    return {
        "addresses": ip("-br", "-4", "addr"),
        "routes": ip("-4", "route"),
        "answers": net.answers(),
        "members": sorted((bond / "slaves").read_text().split()) if bond.exists() else [],
        "active": (bond / "active_slave").read_text().strip() if bond.exists() else "",
    }


def addresses_of(nic: str) -> str:
    """Return the IPv4 addresses of a NIC, as ``ip -br`` shows them."""
    return ip("-br", "-4", "addr", "show", nic)


@scenario(timeout_s=120)
def repaired_after_given_back(box: Box) -> dict[str, Any]:
    """Give the NIC back as a boot does, then repair, once in vain; then with a strange address."""
    net, host = made(box)
    record = json.loads((host.state / "bond/committed-bond0.json").read_bytes())
    ip("rule", "add", "iif", "bond0", "table", "main", "priority", "77")
    code = (
        "import json, sys; from linkhold.actuators.perform import perform\n"
        "for step in json.load(open(sys.argv[1]))['give_back']: perform(step)"
    )
    file = str(host.state / "bond/committed-bond0.json")
    subprocess.run([sys.executable, "-c", code, file], check=True)
    given = seen(net)
    ip("addr", "add", "10.9.9.9/24", "dev", "eth1")
    refused = host.run("repair", "bond0", "--yes")
    still = net.answers()
    ip("addr", "del", "10.9.9.9/24", "dev", "eth1")
    done = host.run("repair", "bond0", "--yes", brief=True)
    return {
        "known": record["addresses"],
        "given": given,
        "refused": [refused.code, refused.said],
        "still": still,
        "repair": [done.code, done.said],
        "after": seen(net),
        "eth0": addresses_of("eth0"),
        "way": ip("route", "get", "10.0.0.1"),
        **_gone_and_restored(box, net, host),
    }


def _gone_and_restored(box: Box, net: TwoSwitches, host: Host) -> dict[str, Any]:
    """Take the committed bond away by hand, and try every command; at last restore."""
    ip("rule", "del", "iif", "bond0", "priority", "77")
    ip("link", "del", "bond0")
    told = {verb: host.run(verb) for verb in ("status", "plan")}
    told["apply"] = host.apply(brief=True)
    told["remove"] = host.run("remove", "bond0", "--yes")
    record = host.state / "bond/committed-bond0.json"

    def restore() -> Done:
        def soon() -> None:
            remake.WORKS_WITHIN_S = 2.0

        return Command(box.tmp, ("restore", "--yes"), soon).wait()

    net.kill_switch(0)
    told["restore in vain"] = restore()
    kept = record.exists()
    net.revive_switch(0)
    told["restore"] = restore()
    after = seen(net)
    told["status after"] = host.run("status")
    return {
        "gone": {name: [done.code, done.said] for name, done in told.items()},
        "kept": kept,
        "dropped": not record.exists(),
        "restored": after,
    }


def test_a_repair_takes_the_addresses_off_the_nic_that_a_boot_gave_them_to(lab: Lab) -> None:
    """A member with the bond's address would keep its routes, and the node would be cut off."""
    value: dict[str, Any] = lab.run(repaired_after_given_back).value

    assert f"{NODE_4}/24" in value["known"]
    assert value["given"]["answers"]
    assert value["refused"][0] == 1
    assert "10.9.9.9/24" in value["refused"][1]
    assert value["still"]
    assert value["repair"][0] == 0, value
    assert value["after"]["answers"], value
    assert value["after"]["members"] == ["eth0", "eth1"]
    assert NODE_4 not in value["eth0"]
    assert "dev bond0" in value["way"]
    _restored(value)


def _restored(value: dict[str, Any]) -> None:
    """Expect that nothing lost the record until its NIC had all of it again."""
    gone = value["gone"]
    assert "is gone; make it again" in gone["status"][1]
    for name in ("plan", "apply", "remove"):
        assert gone[name][0] == 1, gone[name]
        assert "linkhold bond repair bond0" in gone[name][1]
    assert gone["restore in vain"][0] == 1
    assert "does not answer over it; make bond0 again with" in gone["restore in vain"][1]
    assert value["kept"]
    assert gone["restore"] == [0, "bond0 was gone already; eth0 carries what it carried\n"]
    assert value["dropped"]
    assert value["restored"]["answers"]
    assert "default via 10.0.0.1 dev eth0" in value["restored"]["routes"]
    assert "taken away by linkhold at" in gone["status after"][1]


@scenario(timeout_s=120)
def member_added_then_boot(box: Box) -> dict[str, Any]:
    """Add a member to a bond of one; boot with a damaged record of another bond beside it."""
    net, host = made(box, members=["eth0"])
    host.want(members=["eth0", "eth1"])
    added = host.apply(brief=True)
    (host.state / "bond/committed-aaa.json").write_text("{")
    (host.state / "bond/committed-bbb.json").write_text('{"persist": "linkhold"}')
    return {"added": added.code, "boot": boot(), "after": seen(net)}


def test_a_member_that_was_added_later_is_there_after_a_boot(lab: Lab) -> None:
    """And a damaged record of another bond, or one that lacks something, is named and skipped."""
    value: dict[str, Any] = lab.run(member_added_then_boot).value

    assert value["added"] == 0
    assert value["boot"]["code"] == 1
    assert "committed-aaa.json is damaged" in value["boot"]["said"]
    assert "committed-bbb.json is damaged: it lacks members, options" in value["boot"]["said"]
    assert value["after"]["members"] == ["eth0", "eth1"], value
    assert value["after"]["answers"]


@scenario(timeout_s=120)
def operator_gone(box: Box) -> dict[str, Any]:
    """Apply over an SSH session from a host that is gone when the bond must be repaired."""
    net = box.two_switches()
    furnish.quiet_dad()
    net.give_address("eth0")
    furnish.settle()
    ip_batch(["addr add 10.0.0.77/24 dev g0"], ns=net.gateway)
    os.environ["SSH_CONNECTION"] = "10.0.0.77 5000 10.0.0.2 22"
    host = Host(box.tmp)
    applied = host.apply(brief=True)
    record = json.loads((host.state / "bond/committed-bond0.json").read_bytes())
    ip_batch(["addr del 10.0.0.77/24 dev g0"], ns=net.gateway)
    ip("link", "del", "bond0")
    done = host.run("repair", "bond0", "--yes", brief=True)
    return {
        "applied": applied.code,
        "pings": record["checks"]["pings"],
        "repair": [done.code, done.said],
        "after": seen(net),
    }


def test_a_repair_does_not_ask_for_the_operator_of_former_days(lab: Lab) -> None:
    """Whoever pinged on the day of `apply` may have switched the laptop off."""
    value: dict[str, Any] = lab.run(operator_gone).value

    assert (value["applied"], value["pings"]) == (0, [])
    assert value["repair"][0] == 0, value
    assert value["after"]["answers"]


@scenario(timeout_s=120)
def one_switch_dead(box: Box) -> dict[str, Any]:
    """Boot while the switch of the primary gives carrier and forwards nothing."""
    net, _ = made(box)
    net.kill_switch(0)
    return {"boot": boot(PATIENCE_S=20.0), "after": seen(net)}


def test_a_boot_carries_over_the_member_whose_gateway_answers(lab: Lab) -> None:
    """Each member is tried in turn; the one that gets an answer goes on carrying."""
    value: dict[str, Any] = lab.run(one_switch_dead).value

    assert value["boot"]["code"] == 0, value
    assert "its gateway answers" in value["boot"]["said"]
    assert value["after"]["active"] == "eth1"
    assert value["after"]["answers"]


@scenario(timeout_s=120)
def nothing_answers(box: Box) -> dict[str, Any]:
    """Boot with a dead gateway, which comes back later; then with both cables out."""
    net, _ = made(box)
    ip("link", "set", "g0", "down", ns=net.gateway)
    dead = boot()
    stays = seen(net)
    ip("link", "set", "g0", "up", ns=net.gateway)
    later = wait_until(net.answers, "the gateway answers", timeout_s=10)
    net.pull_cable(0)
    net.pull_cable(1)
    began = time.monotonic()
    dark = boot()
    took_s = time.monotonic() - began
    net.plug_cable(1)
    wait_until(net.answers, "the gateway answers", timeout_s=10)
    return {
        "dead": dead,
        "stays": stays,
        "later": later,
        "dark": dark,
        "took_s": took_s,
        "after": seen(net),
    }


def test_a_bond_over_which_nothing_answers_at_boot_stays(lab: Lab) -> None:
    """Two NICs can do no worse than one: it works as soon as the network does."""
    value: dict[str, Any] = lab.run(nothing_answers).value

    assert value["dead"]["code"] == 1
    assert "nothing answers over eth0 alone either" in value["dead"]["said"]
    assert value["stays"]["members"] == ["eth0", "eth1"]
    assert f"{NODE_4}/24" in value["stays"]["addresses"]
    assert "default via 10.0.0.1 dev bond0" in value["stays"]["routes"]
    assert "no link of eth0 is there: it stays" in value["dark"]["said"]
    assert value["after"]["members"] == ["eth0", "eth1"]
    assert value["after"]["answers"]


WATCH = """
import os, subprocess, sys, time
for there in (False, True, False):
    while os.path.exists("/sys/class/net/bond0") is not there:
        time.sleep(0.05)
subprocess.run(["ip", "-n", sys.argv[1], "link", "set", "g0", "up"])
"""
"""Waits until the bond is made again and then given up, and lets the gateway live."""


@scenario(timeout_s=120)
def only_the_nic_is_let_through(box: Box) -> dict[str, Any]:
    """Boot where the gateway answers only when the bond is gone."""
    net, _ = made(box)
    ip("link", "set", "g0", "down", ns=net.gateway)
    ip("link", "del", "bond0")
    with subprocess.Popen([sys.executable, "-c", WATCH, net.gateway]) as watcher:
        found = boot(PATIENCE_S=3.0, ALONE_S=15.0)
        value = {"boot": found, "after": seen(net)}
        watcher.kill()
    return value


def test_the_nic_is_given_back_where_the_gateway_answers_over_it_alone(lab: Lab) -> None:
    """The last resort: the bond goes away only when the NIC is seen to do better."""
    value: dict[str, Any] = lab.run(only_the_nic_is_let_through).value

    assert "answers over eth0 alone: giving the NIC back" in value["boot"]["said"], value
    assert value["after"]["members"] == []
    assert value["after"]["answers"]
    assert "default via 10.0.0.1 dev eth0" in value["after"]["routes"]


@scenario(timeout_s=120)
def member_absent(box: Box) -> dict[str, Any]:
    """Boot without eth1, while another NIC has got its name."""
    net, _ = made(box)
    ip("link", "del", "bond0")
    ip("link", "del", "eth1")
    ip("link", "add", "eth1", "type", "dummy")
    record = Path(os.environ["LINKHOLD_STATE_DIR"]) / "bond/committed-bond0.json"
    document = json.loads(record.read_bytes())
    document["originals"]["eth1"]["perm_mac"] = "02:00:00:00:99:99"
    record.write_text(json.dumps(document))
    return {"boot": boot(), "after": seen(net), "other": ip("-br", "link", "show", "eth1")}


def test_another_nic_that_got_the_name_of_an_absent_member_is_left_alone(lab: Lab) -> None:
    """The steps name interfaces; those of a member that did not come are dropped."""
    value: dict[str, Any] = lab.run(member_absent).value

    assert "eth1 is not there: bond0 is made without it" in value["boot"]["said"], value
    assert value["after"]["members"] == ["eth0"]
    assert value["after"]["answers"]
    assert "UP" not in value["other"]
