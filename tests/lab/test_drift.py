"""The real agent keeps a bond: what somebody changes is told, and repaired in mode enforce."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import Box, scenario
from support.topology import TwoSwitches, ip, ip_batch, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.host import Lab

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
CONFIG = """
mode: {mode}
mqtt: {{local: false}}
alerts: {{fire_after_s: 1}}
bonds:
  bond0: {{members: [eth0, eth1], detect: mii, confirm_after_s: 2, guard_s: 20}}
"""
BONDING = Path("/sys/class/net/bond0/bonding")


@dataclass
class Kept:
    """A node whose bond was made by linkhold, and an agent that keeps it."""

    net: TwoSwitches
    box: Box
    agent: subprocess.Popen[bytes] | None = None

    @classmethod
    def made(cls, box: Box, mode: str = "enforce") -> Kept:
        """Make the bond with ``linkhold bond apply``."""
        kept = cls.configured(box, mode)
        kept.net.give_address("eth0")
        ip("route", "add", "172.16.0.0/16", "via", "10.0.0.1")
        done = kept.linkhold("bond", "apply", "--yes", "--config", str(kept.config))
        assert done.returncode == 0, done.stdout + done.stderr
        return kept

    @classmethod
    def configured(cls, box: Box, mode: str = "enforce") -> Kept:
        """Make the wiring and the configuration, and no bond."""
        kept = cls(box.two_switches(), box)
        box.tmp.chmod(0o755)
        os.environ |= {
            "LINKHOLD_RUN_DIR": str(box.tmp / "run"),
            "LINKHOLD_STATE_DIR": str(box.tmp / "state"),
        }
        kept.config.write_text(CONFIG.format(mode=mode))
        return kept

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.box.tmp / "linkhold.yaml"

    def linkhold(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command."""
        return subprocess.run([LINKHOLD, *words], capture_output=True, text=True, check=False)

    def start(self) -> Kept:
        """Start the agent and wait until it has looked at the bond."""
        self.agent = subprocess.Popen([LINKHOLD, "agent", "--config", str(self.config)])
        file = self.box.tmp / "run" / "state.json"
        wait_until(file.exists, "the agent is ready", timeout_s=20)
        self.wait("the bond is known", lambda s: s["detail"]["bonds"]["bond0"]["wanted"])
        return self

    @property
    def state(self) -> dict[str, Any]:
        """The state document now."""
        document = json.loads((self.box.tmp / "run" / "state.json").read_bytes())
        assert isinstance(document, dict)
        return document

    @property
    def bond(self) -> dict[str, Any]:
        """What the state says of bond0."""
        bond: dict[str, Any] = self.state["detail"]["bonds"]["bond0"]
        return bond

    def wait(self, what: str, check: Callable[[dict[str, Any]], object], s: float = 20) -> float:
        """Wait until the state passes ``check``; return the seconds it took."""
        return wait_until(lambda: check(self.state), what, timeout_s=s)

    def events(self, prefix: str = "bond.") -> list[dict[str, Any]]:
        """Return type and data of all events so far whose type begins so, oldest first."""
        said = self.linkhold("events", "--json").stdout.splitlines()
        found = [json.loads(line) for line in said]
        return [
            {**event["data"], "type": event["type"]}
            for event in found
            if event["type"].startswith(prefix)
        ]

    def told(self, type_: str) -> list[dict[str, Any]]:
        """Return the data of all events of one type."""
        return [event for event in self.events() if event["type"] == type_]

    def wait_told(self, type_: str, count: int = 1, s: float = 25) -> list[dict[str, Any]]:
        """Wait for the n-th event of a type."""
        wait_until(lambda: len(self.told(type_)) >= count, type_, timeout_s=s, every_s=0.3)
        return self.told(type_)

    def stop(self) -> int:
        """End the agent and return its exit code."""
        assert self.agent is not None
        self.agent.send_signal(signal.SIGTERM)
        return self.agent.wait(timeout=10)


def members() -> list[str]:
    """Return the members of bond0."""
    return sorted((BONDING / "slaves").read_text(encoding="ascii").split())


def is_up(nic: str) -> bool:
    """Whether a NIC is administratively up."""
    return bool(int(Path(f"/sys/class/net/{nic}/flags").read_text(encoding="ascii"), 16) & 1)


@scenario(timeout_s=150)
def fought_over(box: Box) -> dict[str, Any]:
    """Take a member out; then let a loop do so again and again."""
    kept = Kept.made(box).start()
    ip("link", "set", "eth1", "nomaster")
    degraded = kept.wait("degraded", lambda s: s["network"] == "degraded", 5)
    cause = kept.state["cause"]
    repaired = kept.wait_told("bond.repaired")
    kept.wait("whole", lambda s: s["network"] == "ok")
    first = members()
    loop = subprocess.Popen(
        ["/bin/sh", "-c", "while sleep 0.5; do ip link set eth1 nomaster 2>/dev/null; done"]
    )
    conflict = kept.wait_told("bond.config_conflict", s=60)
    count = len(kept.events())
    time.sleep(8)
    more = len(kept.events()) - count
    loop.kill()
    shown = kept.linkhold("status").stdout
    alerts = [alert["type"] for alert in kept.state["alerts"]]
    by_hand = kept.linkhold("bond", "repair", "bond0", "--yes", "--config", str(kept.config))
    ended = kept.wait_told("bond.conflict_ended")
    return {
        "degraded_s": degraded,
        "cause": cause,
        "repaired": repaired,
        "first": first,
        "conflict": conflict,
        "more": more,
        "alerts": alerts,
        "shown": shown,
        "by_hand": by_hand.stdout + by_hand.stderr,
        "ended": ended,
        "last": members(),
        "code": kept.stop(),
    }


def test_a_member_taken_out_is_put_back_and_a_fight_ends_in_a_conflict(lab: Lab) -> None:
    """R22, R20: repaired within seconds; a loop that undoes it wins, and then there is peace."""
    value: dict[str, Any] = lab.run(fought_over).value

    assert value["degraded_s"] < 1.0
    assert value["cause"] == ["eth1 is not in bond0", "bond0: 1 of 2 members"]
    assert "eth1 is not in bond0" in value["repaired"][0]["what"]
    assert value["first"] == ["eth0", "eth1"]
    assert "eth1 is not in bond0" in value["conflict"][0]["what"]
    assert value["conflict"][0]["by"] == ""
    assert value["more"] <= 32  # member_added and _removed are facts; nothing of ours
    assert "bond.config_conflict" in value["alerts"]
    assert "repairs were undone twice" in value["shown"]
    assert "repaired and verified" in value["by_hand"]
    assert "by hand" in value["ended"][0]["reason"]
    assert value["last"] == ["eth0", "eth1"]
    assert value["code"] == 0


@scenario(timeout_s=150)
def changed(box: Box) -> dict[str, Any]:
    """Change an option by sysfs; delete the bond, then once more while no agent runs; remove it."""
    kept = Kept.made(box).start()
    routes = ip("route")
    (BONDING / "primary_reselect").write_text("always", encoding="ascii")
    kept.wait_told("bond.repaired")
    option = kept.told("bond.drift")[0]
    reselect = (BONDING / "primary_reselect").read_text(encoding="ascii").strip()
    ip("link", "del", "bond0")
    gone = kept.wait("gone", lambda s: not s["detail"]["bonds"]["bond0"]["there"], 5)
    kept.wait_told("bond.repaired", 2, s=40)
    kept.wait("ok", lambda s: s["network"] == "ok")
    code = kept.stop()
    ip("link", "del", "bond0")
    kept.start()
    kept.wait("gone again", lambda s: not s["detail"]["bonds"]["bond0"]["there"])
    kept.wait("made again", lambda s: s["detail"]["bonds"]["bond0"]["there"], 40)
    kept.wait("ok again", lambda s: s["network"] == "ok")
    whole = {"members": members(), "routes": ip("route"), "answers": kept.net.answers()}
    kept.wait("its repair has ended", lambda s: not s["detail"]["bonds"]["bond0"]["repair"])
    known = len(kept.events(""))
    removed = kept.linkhold("bond", "remove", "bond0", "--yes", "--config", str(kept.config))
    time.sleep(4)
    return {
        "first_code": code,
        "whole": whole,
        "removed": [removed.returncode, removed.stderr],
        "during": kept.events("")[known:],
        "option": option,
        "reselect": reselect,
        "gone_s": gone,
        "drift": kept.told("bond.drift"),
        "same_routes": whole["routes"] == routes,
        "code": kept.stop(),
    }


def test_an_option_and_a_deleted_bond_come_back(lab: Lab) -> None:
    """R13, R19: both values are told; the bond returns with its addresses and routes.

    Also when it vanished while no agent was there to see who did it. A removal by command is no
    fault, and raises no alert.
    """
    value: dict[str, Any] = lab.run(changed).value

    assert (value["option"]["subject"], value["option"]["wanted"], value["option"]["seen"]) == (
        "primary_reselect",
        "2",
        "0",
    )
    assert value["reselect"] == "failure 2"
    assert value["gone_s"] < 1.0
    assert [drift["kind"] for drift in value["drift"]] == ["option", "gone", "gone"]
    assert value["whole"]["members"] == ["eth0", "eth1"]
    assert value["same_routes"]
    assert value["whole"]["answers"]
    assert (value["first_code"], value["code"]) == (0, 0)
    # What the operator orders is information.
    assert value["removed"][0] == 0, value["removed"]
    bad = [e for e in value["during"] if e["type"] == "bond.drift" or "bond." in e.get("alert", "")]
    assert [e for e in bad if e["type"] != "alert.closed"] == []
    assert "bond.not_applied" in [e["type"] for e in value["during"]]


@scenario(timeout_s=60)
def set_down(box: Box) -> dict[str, Any]:
    """Set a member down, then take it out as well; at last set the bond down."""
    kept = Kept.made(box).start()
    ip("link", "set", "eth1", "down")
    told = kept.wait_told("bond.drift")
    ip("link", "set", "eth1", "nomaster")
    kept.wait_told("bond.drift", 2)
    time.sleep(4)
    up = is_up("eth1")
    ip("link", "set", "bond0", "down")
    kept.wait_told("bond.drift", 3)
    time.sleep(3)
    return {
        "told": told,
        "kinds": [drift["kind"] for drift in kept.told("bond.drift")],
        "up": [up, is_up("eth1"), is_up("bond0")],
        "repairs": kept.state["detail"]["agent"]["counters"]["bond_repairs"],
        "code": kept.stop(),
    }


def test_what_somebody_set_down_is_never_raised(lab: Lab) -> None:
    """R05: neither a member, in the bond or out of it, nor the bond itself."""
    value: dict[str, Any] = lab.run(set_down).value

    assert value["told"][0]["repair"].startswith("never raised")
    assert value["kinds"] == ["member_admin_down", "member_left", "bond_admin_down"]
    assert value["up"] == [False, False, False]
    assert value["repairs"] == 0
    assert value["code"] == 0


@scenario(timeout_s=100)
def crippled(box: Box) -> dict[str, Any]:
    """Change an option while a cable is out; delete the bond while a member is set down."""
    kept = Kept.made(box).start()
    kept.net.pull_cable(1)
    (BONDING / "num_grat_arp").write_text("7", encoding="ascii")
    kept.wait_told("bond.repaired")
    notifications = (BONDING / "num_grat_arp").read_text(encoding="ascii").strip()
    ip("link", "set", "eth1", "down")
    kept.wait("set down", lambda s: "never raised" in str(s["detail"]["bonds"]["bond0"]["drift"]))
    ip("link", "del", "bond0")
    kept.wait_told("bond.repaired", 2)
    kept.wait("carries", lambda s: s["detail"]["bonds"]["bond0"]["active"] == "eth0")
    record = json.loads((box.tmp / "state/bond/committed-bond0.json").read_bytes())
    return {
        "notifications": notifications,
        "failed": kept.told("bond.repair_failed"),
        "members": members(),
        "up": is_up("eth1"),
        "answers": kept.net.answers(),
        "record": record["members"],
        "code": kept.stop(),
    }


def test_a_repair_needs_no_whole_bond(lab: Lab) -> None:
    """A member without link stops no repair; one that is set down stays so, in the record too."""
    value: dict[str, Any] = lab.run(crippled).value

    assert value["notifications"] == "3"
    assert value["failed"] == []
    assert (value["members"], value["up"]) == (["eth0"], False)
    assert value["answers"]
    assert value["record"] == ["eth0", "eth1"]
    assert value["code"] == 0


@scenario(timeout_s=90)
def absent(box: Box) -> dict[str, Any]:
    """Start with a member missing, and without any working link; then give it one by one."""
    kept = Kept.made(box)
    kept.net.pull_cable(0)
    ip("link", "del", "eth1")
    kept.start()
    dark = kept.state["network"]
    kept.net.plug_cable(0)
    told = kept.wait_told("bond.drift")
    degraded = kept.state["network"]
    ip_batch([f"link add eth1 type veth peer name p netns {kept.net.switches[1]}"])
    ip_batch(["link set p master br0 up"], ns=kept.net.switches[1])
    kept.wait_told("bond.repaired")
    kept.wait("ok", lambda s: s["network"] == "ok")
    return {
        "dark": dark,
        "told": told,
        "degraded": degraded,
        "members": members(),
        "code": kept.stop(),
    }


def test_a_member_missing_at_the_start_joins_when_it_appears(lab: Lab) -> None:
    """R23: the agent starts without a working link; a lost NIC is degraded until it is there."""
    value: dict[str, Any] = lab.run(absent).value

    assert value["dark"] in {"down", "unknown"}
    assert [drift["kind"] for drift in value["told"]] == ["member_absent"]
    assert value["degraded"] == "degraded"
    assert value["members"] == ["eth0", "eth1"]
    assert value["code"] == 0


@scenario(timeout_s=60)
def observed(box: Box) -> dict[str, Any]:
    """Disturb a bond under an agent that only looks."""
    kept = Kept.made(box, "observe").start()
    ip("link", "set", "eth1", "nomaster")
    (BONDING / "miimon").write_text("1000", encoding="ascii")
    kept.wait_told("bond.drift", 2)
    time.sleep(4)
    return {
        "told": kept.told("bond.drift"),
        "members": members(),
        "miimon": (BONDING / "miimon").read_text(encoding="ascii").strip(),
        "alerts": [alert["type"] for alert in kept.state["alerts"]],
        "code": kept.stop(),
    }


def test_observe_mode_changes_nothing(lab: Lab) -> None:
    """Drift is told with what enforce would do, and stays."""
    value: dict[str, Any] = lab.run(observed).value

    assert all(drift["repair"].startswith("observe only") for drift in value["told"])
    assert value["members"] == ["eth0"]
    assert value["miimon"] == "1000"
    assert value["alerts"] == ["bond.drift"]
    assert value["code"] == 0


@scenario(timeout_s=60)
def foreign(box: Box) -> dict[str, Any]:
    """Watch bonds that others made: one without monitoring, which then gets a slow one."""
    kept = Kept.configured(box)
    kept.config.write_text("mode: enforce\nmqtt: {local: false}\n", encoding="ascii")
    kept.net.make_bond(miimon_ms=0)
    kept.agent = subprocess.Popen([LINKHOLD, "agent", "--config", str(kept.config)])
    wait_until((box.tmp / "run" / "state.json").exists, "the agent is ready", timeout_s=20)
    at_once = kept.state["alerts"]
    kept.net.pull_cable(0)
    kept.wait("down", lambda s: s["network"] == "down", 5)
    cut = {"cause": kept.state["cause"], "carrier": kept.bond["carrier"]}
    cut["kernel"] = Path("/sys/class/net/bond0/carrier").read_text(encoding="ascii").strip()
    kept.net.plug_cable(0)
    kept.wait("ok", lambda s: s["network"] == "ok", 5)
    (BONDING / "miimon").write_text("100000", encoding="ascii")
    slow = kept.wait_told("bond.slow_monitoring")
    ip("route", "del", "default")
    lost_s = kept.wait("route lost", lambda s: "route.default_lost" in str(s["alerts"]), 5)
    return {
        "at_once": at_once,
        "cut": cut,
        "bond": kept.bond,
        "slow": slow,
        "told": kept.told("bond.unmonitored"),
        "lost_s": lost_s,
        "miimon": (BONDING / "miimon").read_text(encoding="ascii").strip(),
        "code": kept.stop(),
    }


def test_bonds_that_others_made_are_judged(lab: Lab) -> None:
    """R09, R10, R02: no monitoring is an error at once, 100 s is named; nothing is changed."""
    value: dict[str, Any] = lab.run(foreign).value

    assert [(a["type"], a["severity"]) for a in value["at_once"]] == [
        ("bond.unmonitored", "critical")
    ]
    # The kernel says that it carries, over a cable that is out.
    assert (value["cut"]["kernel"], value["cut"]["carrier"]) == ("1", False)
    assert "bond0 does not leave it (no link monitoring: miimon 0)" in value["cut"]["cause"][0]
    assert len(value["told"]) == 1
    assert value["slow"][0]["detection_s"] == 100
    assert value["bond"]["wanted"] is False
    assert value["lost_s"] < 2.0
    assert value["miimon"] == "100000"
    assert value["code"] == 0
