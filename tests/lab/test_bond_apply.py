"""``linkhold bond apply`` and ``remove`` in the lab: everything goes along, nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators.guard import LOOK_S
from support import furnish, host_state
from support.advertise import advertise
from support.bond_change import Host
from support.echo_stream import EchoStream
from support.lab import Box, scenario
from support.lab.again import ALONE, once_more
from support.probes import PORT, Probe
from support.topology import GATEWAY_4, NICS, NODE_4, Bond, ip, wait_until

if TYPE_CHECKING:
    from support.lab.host import Lab
    from support.topology import TwoSwitches

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
NOTHING: dict[str, Any] = {"said": [0, "", 0, ""], "moved": [], "left": []}
LONGEST_WAIT_MS = 50.0 if ALONE else 150.0
"""On a quiet machine; beside other tests the guest's one processor is waited for. One lost segment
costs 200 ms at least (TCP_RTO_MIN)."""
LIFETIME_S = 3000
VERBS = ("apply", "remove")
TOLERATED = {
    "own MACs": ("links: ", "neighbours: ", "addresses: +DEVICE: local=fe80"),
    "another MTU": ("links: -DEVICE: mtu", "links: +DEVICE: mtu", "sysctls: "),
}
"""What is another thing on such bonds than it was on the NIC."""


def _expected_on_bond(before: host_state.State) -> list[str]:
    """Return how what bond0 carries now differs from what eth0 carried ``before``."""
    was = host_state.carried(before, "eth0", members=NICS)
    return host_state.wait_equal(
        was, look=lambda: host_state.carried(host_state.take(), "bond0", members=NICS)
    )


def _traffic(net: TwoSwitches, port: int, address: str, rate_hz: float) -> Probe:
    return Probe((None, net.gateway), (NODE_4, address), rate_hz, port=port)


@scenario(timeout_s=120)
def moved_and_back(box: Box) -> dict[str, Any]:
    """Move a NIC that carries everything into a bond and back, under traffic."""
    net = box.two_switches()
    furnish.furnish(net, token=True)
    host = Host(box.tmp)
    before = host_state.take()
    told: dict[str, Any] = {}
    with EchoStream(net.gateway, GATEWAY_4) as tcp:
        host.run("plan")  # as much work for the guest's one processor, and no change
    noise_ms = tcp.worst_ms
    for verb, words in {
        "apply": ("apply", "--yes"),
        "remove": ("remove", "bond0", "--yes"),
    }.items():
        with (
            EchoStream(net.gateway, GATEWAY_4) as tcp,
            _traffic(net, PORT, GATEWAY_4, 200) as near,
            _traffic(net, PORT + 1, furnish.ROUTED_4, 50) as far,
        ):
            done = host.run(*words, brief=True)
            time.sleep(0.2)
        told[verb] = {
            "code": done.code,
            "said": done.said,
            "lost": [near.traffic.lost, far.traffic.lost],
            "sent": near.traffic.out.sent,
            "waited_ms": max(0.0, tcp.worst_ms - noise_ms),
            "differs": _expected_on_bond(before)
            if verb == "apply"
            else host_state.wait_equal(before),
        }
        if verb == "apply":
            told |= {"members": _members(), "lifetimes": _lifetimes()}
            advertise(net.gateway, "fd77::", valid_s=9000)
            wait_until(lambda: 8000 < max(_lifetimes()) <= 9000, "the lifetime is renewed by RA")
            told["renewed"] = _expected_on_bond(before)
    return told


def _members() -> list[str]:
    return Path("/sys/class/net/bond0/bonding/slaves").read_text().split()


def _lifetimes() -> list[int]:
    shown = ip("-6", "address", "show", "bond0") + ip("-4", "address", "show", "bond0")
    words = shown.split()
    values = [words[at + 1] for at, word in enumerate(words) if word == "valid_lft"]
    return [int(value.removesuffix("sec")) for value in values if value != "forever"]


def test_everything_moves_into_the_bond_and_back_without_a_loss(lab: Lab) -> None:
    """Addresses, routes, rules, nexthops, neighbours, token and sysctls move; no probe is lost.

    With a standby at hand 200 probes/s both ways and a routed network lose none, and a TCP echo
    each 10 ms never waits 50 ms. ``bond remove`` gives it all back.
    """
    value = once_more(
        lambda: lab.run(moved_and_back).value,
        lambda found: max(found[verb]["waited_ms"] for verb in VERBS) < LONGEST_WAIT_MS,
    )

    for verb in VERBS:
        told = value[verb]
        assert told["code"] == 0, told["said"]
        assert told["differs"] == []
        assert told["lost"] == [0, 0]
        assert told["sent"] > 200
        assert told["waited_ms"] < LONGEST_WAIT_MS
    assert sorted(value["members"]) == ["eth0", "eth1"]
    assert value["renewed"] == []
    assert LIFETIME_S - 60 < min(value["lifetimes"]) <= LIFETIME_S


@scenario(timeout_s=120)
def other_shapes(box: Box) -> dict[str, Any]:
    """One NIC alone, MACs that stay, and another MTU."""
    net = box.two_switches()
    furnish.furnish(net)
    return {
        "only NIC, rolled back": _rolled_back(Host(box.tmp, members=["eth0"]), net),
        "only NIC": _removed(Host(box.tmp, members=["eth0"]), net) if ALONE else NOTHING,
        "own MACs": _removed(Host(box.tmp, fail_over_mac="active"), net),
        "another MTU": _removed(Host(box.tmp, mtu_bytes=1400, primary="eth1"), net),
    }


@scenario(timeout_s=60)
def idle_nics(box: Box) -> dict[str, Any]:
    """NICs that carry nothing, one of them set down."""
    box.two_switches()
    furnish.quiet_dad()
    ip("link", "set", "eth0", "down")
    furnish.settle()
    host = Host(box.tmp)
    return {"idle": _rolled_back(host, None), "idle, removed": _removed(host, None)}


def _rolled_back(host: Host, net: TwoSwitches | None) -> dict[str, Any]:
    return _unmade(host, net, ("apply", "--yes", "--manual"), ("rollback",))


def _removed(host: Host, net: TwoSwitches | None) -> dict[str, Any]:
    return _unmade(host, net, ("apply", "--yes"), ("remove", "bond0", "--yes"))


def _unmade(
    host: Host, net: TwoSwitches | None, make: tuple[str, ...], unmake: tuple[str, ...]
) -> dict[str, Any]:
    """Make the bond and unmake it; ``net`` has a router, and None is for NICs without addresses."""
    before = host_state.take()
    made = host.run(*make, brief=True)
    assert made.code in {0, 3}, made.said
    active = Bond("bond0", None).active
    moved = _expected_on_bond(before) if net else []
    back = host.run(*unmake, brief=True)
    if net is not None:
        advertise(net.gateway, "fd77::")
    return {
        "said": [made.code, made.said, back.code, back.said],
        "active": active,
        "moved": moved,
        "left": host_state.wait_equal(before),
    }


def test_other_shapes_of_bonds(lab: Lab) -> None:
    """A bond of the only NIC, one with the members' own MACs, one of idle NICs.

    Each moves everything, and leaves nothing behind when it is undone or removed. Where MACs stay
    with their NICs the kernel drops permanent neighbours as the MAC changes.
    """
    value = {**lab.run(other_shapes).value, **lab.run(idle_nics).value}

    for name, told in value.items():
        own_macs = name == "own MACs"
        fine = TOLERATED.get(name, ("nothing",))
        moved = [one for one in told["moved"] if not one.startswith(fine)]
        left = [one for one in told["left"] if not own_macs or not one.startswith("neighbours")]
        assert told["said"][0] in {0, 3}, (name, told["said"])
        assert told["said"][2] == 0, (name, told["said"])
        assert (name, moved, left) == (name, [], [])
    assert value["own MACs"]["active"] == "eth0"
    assert value["another MTU"]["active"] == "eth1"


@scenario(timeout_s=120)
def adjusted(box: Box) -> dict[str, Any]:
    """Let a bond of somebody's with other options and a member less become as wanted."""
    net = box.two_switches()
    furnish.quiet_dad()
    bond = net.make_bond(miimon_ms=100, members=("eth0",), num_grat_arp=1, updelay=200)
    furnish.settle()
    host = Host(box.tmp)
    before = host_state.take()
    with net.probe(rate_hz=200) as probe:
        waiting = host.apply("--manual", brief=True)
        back = host.run("rollback")
        undone = host_state.wait_equal(before)
        made = host.apply(brief=True)
    again = host.apply(brief=True)
    found = {key: bond.read(key) for key in ("miimon", "updelay", "num_grat_arp", "slaves")}
    host.want(fail_over_mac="active")
    refused = host.apply()
    return {
        "codes": [waiting.code, back.code, made.code, again.code],
        "undone": undone,
        "lost": probe.traffic.lost,
        "found": found,
        "again": again.stdout,
        "refused": [refused.code, refused.said],
    }


def test_a_standing_bond_is_adjusted_without_a_loss(lab: Lab) -> None:
    """Options and a missing member of a standing bond become as wanted; rollback undoes that.

    An option that only a bond without members takes is refused, with what to do.
    """
    value = lab.run(adjusted).value

    assert value["codes"] == [3, 0, 0, 0]
    assert value["undone"] == []
    assert value["lost"] == 0
    expected = {"miimon": "50", "updelay": "0", "num_grat_arp": "3", "slaves": "eth0 eth1"}
    assert value["found"] == expected
    assert "as wanted" in value["again"]
    code, said = value["refused"]
    assert code == 1
    assert "fail_over_mac" in said
    assert "linkhold bond remove bond0" in said


@scenario(timeout_s=120)
def ended(box: Box) -> dict[str, Any]:
    """End changes in every way that people and signals do."""
    net = box.two_switches()
    furnish.quiet_dad()
    net.give_address("eth0")
    furnish.settle()
    host = Host(box.tmp)
    before = host_state.take()
    told: dict[str, Any] = {}

    def note(name: str, code: int, said: str) -> None:
        host.wait_for_guard()
        told[name] = [code, said, host_state.wait_equal(before)]

    host.apply("--manual", brief=True)
    again = {"plan": host.run("plan"), "apply": host.apply()}
    told["again"] = {name: [one.code, one.said] for name, one in again.items()}
    confirmed = host.run("confirm")
    host.run("remove", "bond0", "--yes", brief=True)
    note("confirm", confirmed.code, confirmed.said)
    done = host.apply("--manual", brief=True, guard_s=4)
    time.sleep(3 * LOOK_S)  # then its guard has the change in memory as it stands
    (host.state / "bond/journal.json").write_text('{"id": "')
    note("nobody confirms", done.code, done.said)
    late = host.run("confirm")
    note("too late", late.code, late.said)
    for number in (signal.SIGINT, signal.SIGTERM):
        command = host.start("apply", "--yes")
        command.wait_for("watching for")
        command.signal(number)
        done = command.wait()
        note(signal.Signals(number).name, done.code, done.said)
    command = host.start("apply", "--yes")
    command.wait_for("watching for")
    command.signal(signal.SIGHUP)
    hung_up = command.wait()
    made = ip("-br", "link", "show", "bond0").split()[0]
    host.run("remove", "bond0", "--yes", brief=True)
    note("SIGHUP", hung_up.code, made)
    told["closed stdout"] = _with_closed_stdout(host)
    host.run("remove", "bond0", "--yes", brief=True)
    return told


def _with_closed_stdout(host: Host) -> list[object]:
    """Run the real program into a pipe that nobody reads from its first line on."""
    words = [LINKHOLD, "bond", "apply", "--yes", "--config", str(host.config)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as command:
        assert command.stdout is not None
        assert command.stderr is not None
        while "confirmed by itself" not in command.stdout.readline():
            pass
        wait_until(lambda: (host.journal() or {}).get("phase", -1) >= 0, "the change began")
        command.stdout.close()
        said = command.stderr.read()
        return [command.wait(), said, host.last()["ended"]]


def test_how_a_change_may_end(lab: Lab) -> None:
    """Confirmed it stays; not confirmed, interrupted or terminated it is undone at once.

    A hangup and a reader who left do not end it: it is the way to a host that may hang up. Nor
    does a journal that is damaged meanwhile keep the guard from undoing it. While it waits, plan
    and apply say so.
    """
    value = lab.run(ended).value

    for code, said in value["again"].values():
        assert code == 1, said
        assert "a change of bond0 (apply) waits for confirmation" in said
        assert "linkhold bond confirm, or linkhold bond rollback" in said
    assert value["confirm"][0] == 0, value["confirm"]
    assert value["nobody confirms"][0] == 3
    assert "linkhold bond confirm" in value["nobody confirms"][1]
    assert value["too late"][0] == 1
    assert "nothing waits to be confirmed" in value["too late"][1]
    for name in ("SIGINT", "SIGTERM"):
        assert value[name][0] == 130, value[name]
        assert "interrupted. Everything was undone" in value[name][1]
    assert value["SIGHUP"][:2] == [0, "bond0"]
    for name in ("confirm", "nobody confirms", "SIGINT", "SIGTERM", "SIGHUP"):
        assert (name, value[name][2]) == (name, [])
    assert value["closed stdout"] == [0, "", "committed"]
