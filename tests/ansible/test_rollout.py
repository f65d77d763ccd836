"""A rollout to several nodes with systemd and sshd: preflight, canary, batches, gate, removal.

The tests follow each other as the days of one fleet do.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support import packages
from support.containers import Container, node_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.rollout import Ran

    from .conftest import Made, Site

NODES = ("n1", "n2", "n3", "n4")
CANARY = "n1"
PASSWORD = "correct-horse-battery"
CONFIG, KEY = "/etc/linkhold/linkhold.yaml", "/etc/linkhold/node.key"
BATCHES = {"linkhold_serial": [1, 2]}
NOTHING = dict.fromkeys(NODES, 0)
PACKAGES = ("mosquitto", "python3.11-venv")
FOREIGN = """
import socket, time
one = socket.socket(socket.AF_UNIX)
one.bind("/run/linkhold/mqtt/broker.sock")
one.listen()
time.sleep(600)
"""


@dataclass(frozen=True)
class Fleet:
    """Four nodes and who rolls out to them."""

    site: Site
    nodes: dict[str, Container]

    def play(self, name: str, *options: str, **extra: object) -> Ran:
        """Run a playbook."""
        return self.site.controller.play(name, *options, **extra)

    def everywhere(self, *command: str) -> dict[str, str]:
        """Return what a command says on each node."""
        return {name: node.say(*command) for name, node in self.nodes.items()}


@pytest.fixture(scope="module")
def fleet(made: Made, site: Site) -> Iterator[Fleet]:
    """Nodes that have a finished venv, but for the canary.

    There apt has no lists yet and installs from a folder, and so does pip.
    """
    if packages.missing():
        pytest.skip(packages.missing())
    bare = packages.repository(made.folder / "packages/layer", *PACKAGES)
    files = node_files(site.controller.public_key, site.controller.key.read_text("ascii"))
    with ExitStack() as stack:
        nodes = {}
        for name in NODES:
            layers = (bare,) if name == CANARY else (made.layer,)
            node = Container(name, site.switch, made.folder / "nodes", files, layers)
            nodes[name] = stack.enter_context(node)
        for node in nodes.values():
            node.await_ssh()
        _take_packages(nodes[CANARY])
        own = {name: {"ansible_host": node.address} for name, node in nodes.items()}
        own["n2"]["linkhold_gate_timeout_s"] = "10"  # it will not be well in any time
        site.controller.inventory(
            {name: {**own[name], **site.broker.issue(name)} for name in nodes},
            [CANARY],
            linkhold_wheel=str(made.wheel),
            linkhold_wheelhouse=str(made.wheelhouse),
            linkhold_site="lab",
            linkhold_mqtt=site.broker.mqtt(),
            linkhold_secrets={"ups.password": PASSWORD},
            linkhold_gate_settle_s=2,
            linkhold_gate_timeout_s=60,
            linkhold_gate_observer=str(site.broker.observer()),
        )
        yield Fleet(site, nodes)


def _take_packages(node: Container) -> None:
    """Leave a node as a new machine is: no packages of ours, and nobody who keeps services off."""
    node.say(
        "sh", "-c", "rm -rf /usr/sbin/policy-rc.d /etc/apt/sources.list.d /var/lib/apt/lists/*"
    )
    said = node.say("dpkg", "--remove", "--force-depends", "python3-venv", *PACKAGES)
    assert "Removing mosquitto" in said, said


def test_preflight_comes_before_any_change(fleet: Fleet) -> None:
    """Nodes that cannot be served are all named with reason and remedy, and none is changed."""
    n2, n3 = fleet.nodes["n2"], fleet.nodes["n3"]
    n2.say("cp", "/etc/os-release", "/root/os-release")
    n2.say("sh", "-c", "rm /etc/os-release; echo 'ID=arch' >/etc/os-release")
    n3.say("mkdir", "-p", "/run/linkhold/mqtt")
    n3.say("systemd-run", "--unit=foreign", "/usr/bin/python3", "-c", FOREIGN)

    ran = fleet.play("site", linkhold_install_packages=False)

    assert ran.code != 0
    assert ran.counts("changed") == NOTHING
    assert ran.counts("failed") == {**dict.fromkeys(NODES, 1), "n4": 0}
    assert "n1: packages are missing: mosquitto, python3.11-venv. Install them" in ran.text
    assert "n2: this is arch; linkhold knows debian 12, ubuntu 22.04" in ran.text
    assert "listens on /run/linkhold/mqtt/broker.sock, and is not linkhold-broker" in ran.text
    assert "It was started by hand: end it" in ran.text
    n2.say("cp", "/root/os-release", "/etc/os-release")
    n3.say("systemctl", "stop", "foreign")
    n3.say("rm", "-r", "/run/linkhold")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"linkhold_gate_known_alert": ["x"]}, "linkhold_gate_known_alert: linkhold has no such"),
        ({"linkhold_tls_ca": "certs/ca.pem"}, "'certs/ca.pem' is no file on the controller, or no"),
    ],
)
def test_wrong_variables_are_refused(fleet: Fleet, wrong: dict[str, Any], told: str) -> None:
    """A variable that nothing reads, or a path that leads nowhere, stops before any node."""
    ran = fleet.play("site", "--limit", CANARY, **wrong)

    assert ran.counts("failed") == {CANARY: 1}
    assert told in ran.text, ran.said


def test_nothing_is_enforced_that_was_not_observed(fleet: Fleet) -> None:
    """Mode enforce is refused on a node where no agent has run, confirmed or not."""
    agreed = {"linkhold_mode": "enforce", "linkhold_enforce_confirmed": True}
    ran = fleet.play("site", "--limit", CANARY, **agreed)

    assert ran.counts("failed") == {CANARY: 1}
    assert "First: -e linkhold_mode=observe --limit n1" in ran.text


def test_check_mode_before_the_first_run(fleet: Fleet) -> None:
    """Check mode shows every step and the file to be written, and leaves nothing."""
    ran = fleet.play("site", "--check", "--diff", "--limit", "n1,n3")

    assert ran.code == 0, ran.said
    assert ran.counts("changed") == {"n1": 2, "n3": 2}
    assert re.search(r'"mosquitto",\s+"python3.11-venv"', ran.said)
    assert "+write /etc/systemd/system/linkhold.service" in ran.said
    assert "mode: observe" in ran.said
    assert "node.key" in ran.said
    left = (
        "ls -d /etc/linkhold /usr/local/bin/linkhold /opt/linkhold/current /etc/systemd/system/lin*"
    )
    found = fleet.everywhere(
        "sh", "-c", f"{left} 2>/dev/null; find /root/.ansible -type f 2>/dev/null"
    )
    assert found == dict.fromkeys(NODES, "")


def test_the_gate_stops_the_rollout(fleet: Fleet) -> None:
    """The canary is installed, the next node has no way out, and the batch after is untouched."""
    fleet.nodes["n2"].say("ip", "route", "del", "default")

    ran = fleet.play("site", "--diff", **BATCHES)

    assert ran.code != 0
    changed, failed = ran.counts("changed"), ran.counts("failed")
    assert (failed["n1"], failed["n2"]) == (0, 1), ran.said
    assert min(changed["n1"], changed["n2"]) >= 4
    assert (changed["n3"], changed["n4"]) == (0, 0)
    assert "n2 is not well after the change: network is" in ran.text
    assert "no further batch is touched" in ran.text
    assert "`linkhold diagnose` and `linkhold status` on n2" in ran.text
    assert "could not be found" in fleet.nodes["n3"].say("systemctl", "status", "linkhold")
    # The package that came meanwhile has started no broker, and keeps nobody from starting it.
    broker = fleet.nodes["n1"].say("systemctl", "is-active", "mosquitto")
    enabled = fleet.nodes["n1"].say("systemctl", "is-enabled", "mosquitto")
    assert (broker, enabled) == ("inactive", "disabled")
    assert "mosquitto" not in fleet.nodes["n1"].say("journalctl", "-u", "mosquitto", "-o", "cat")


def test_the_mended_fleet_is_completed(fleet: Fleet) -> None:
    """The next run changes what was left, batch by batch, and hands out keys that nobody sees."""
    n2 = fleet.nodes["n2"]
    n2.say("ip", "route", "add", "default", "via", "192.0.2.1")

    ran = fleet.play("site", "--diff", linkhold_gate_timeout_s=60, **BATCHES)

    assert ran.code == 0, ran.said
    changed = ran.counts("changed")
    assert (changed["n1"], changed["n2"]) == (0, 0), ran.said
    assert min(changed["n3"], changed["n4"]) >= 4
    assert _gates(ran) == [["n1"], ["n2"], ["n3", "n4"]]
    modes = fleet.everywhere("stat", "-c", "%a %U", KEY, "/etc/linkhold/ups.password")
    assert modes == dict.fromkeys(NODES, "600 root\n600 root")
    _assert_secret(fleet, ran)


def test_a_lost_node_stops_the_rollout(fleet: Fleet) -> None:
    """After a node that became unreachable in its batch no further batch is touched."""
    fleet.nodes["n2"].say("systemctl", "stop", "lab-ssh")

    batch = "--tags=linkhold_configure", "--limit=n2,n3,n4"
    ran = fleet.play("site", *batch, linkhold_paths={"interval_ok": 7}, **BATCHES)

    fleet.nodes["n2"].say("systemctl", "start", "lab-ssh")
    assert ran.code != 0
    assert ran.counts("unreachable") == {"n2": 1, "n3": 0, "n4": 0}
    assert ran.counts("changed") == {"n2": 0, "n3": 0, "n4": 0}, ran.said
    assert "n2 was lost in the midst of its change" in ran.text
    assert "n3, n4 and those after are untouched" in ran.text


def test_what_was_not_read_is_read(fleet: Fleet) -> None:
    """A file that an interrupted run wrote, and told the agent nothing of, is read in the next."""
    fleet.nodes["n3"].say("touch", CONFIG)
    part = "--tags=linkhold_configure", "--limit=n3"

    ran = fleet.play("site", *part)
    assert ran.counts("changed") == {"n3": 2}, ran.said
    assert "RUNNING HANDLER [linkhold.linkhold.linkhold : Restart linkhold]" in ran.said
    assert fleet.play("site", *part).counts("changed") == {"n3": 0}


def _gates(ran: Ran) -> list[list[str]]:
    """Return the nodes of each batch, in the order in which their gates opened."""
    found = re.split(r"(?m)^TASK \[\S+ : Ask the node\].*$", ran.said)[1:]
    return [sorted(re.findall(r"(?m)^ok: \[(\w+)\]", part.split("TASK")[0])) for part in found]


def _assert_secret(fleet: Fleet, ran: Ran) -> None:
    """Neither Ansible's output nor a node's journal has the password or a line of a key."""
    key = fleet.nodes["n3"].say("cat", KEY).splitlines()[1]
    journal = fleet.nodes["n3"].say("journalctl", "--no-pager")
    assert fleet.nodes["n3"].say("cat", "/etc/linkhold/ups.password") == PASSWORD
    for secret in (key, PASSWORD):
        assert secret not in ran.said
        assert secret not in journal


def test_check_mode_of_a_change(fleet: Fleet) -> None:
    """Check mode shows the very change of the file and who would be reloaded, and no more."""
    before = fleet.nodes["n3"].say("cat", CONFIG)
    change = {"linkhold_keepalive": {"profile": "custom", "time_s": 123}}

    ran = fleet.play("site", "--limit", "n3", "--check", "--diff", **change)

    assert ran.code == 0, ran.said
    assert ran.counts("changed") == {"n3": 2}
    assert "+  time_s: 123" in ran.said
    assert "RUNNING HANDLER [linkhold.linkhold.linkhold : Reload linkhold]" in ran.said
    assert fleet.nodes["n3"].say("cat", CONFIG) == before


@pytest.mark.parametrize("options", [("--check",), ()])
def test_a_wrong_configuration_goes_nowhere(fleet: Fleet, options: tuple[str, ...]) -> None:
    """What `linkhold check` refuses fails in check mode and without, and the old file stays."""
    before = fleet.nodes["n3"].say("cat", CONFIG)

    ran = fleet.play(
        "site",
        "--limit=n3",
        "--tags=linkhold_configure",
        *options,
        linkhold_keepalive={"time_s": -5},
    )

    assert ran.counts("failed") == {"n3": 1}
    assert "keepalive.time_s: -5" in ran.text, ran.said
    assert fleet.nodes["n3"].say("cat", CONFIG) == before


@pytest.mark.parametrize("options", [("--check",), ()])
def test_the_plan_of_a_bond_is_shown(fleet: Fleet, options: tuple[str, ...]) -> None:
    """What a configured bond would take is on the screen, in check mode too; none is made."""
    ran = fleet.play(
        "site",
        "--limit=n4",
        "--tags=linkhold_configure,linkhold_run",
        *options,
        linkhold_bonds={"bond7": {"members": ["eth0", "eth9"]}},
    )

    assert ran.code == 0, ran.said
    assert "bond7: refused" in ran.said
    assert "eth9" in ran.said.split("bond7: refused")[1]
    assert "bond7" not in fleet.nodes["n4"].say("ip", "-br", "link")


def test_a_new_alert_stops_the_rollout(fleet: Fleet) -> None:
    """An alert that was not there before the batch stops it, by its name."""
    target = {"name": "store", "ping": "192.0.2.99"}

    ran = fleet.play(
        "site",
        "--limit=n3",
        linkhold_paths={"targets": [target], "down_after": 2, "interval_ok": 1},
        linkhold_gate_networks=["ok", "degraded"],
        linkhold_gate_settle_s=8,
        linkhold_gate_timeout_s=12,
    )

    assert ran.counts("failed") == {"n3": 1}, ran.said
    assert "new alert path.path_dead" in ran.text, ran.said


def test_enforce_needs_agreement(fleet: Fleet) -> None:
    """From observe to enforce nothing goes without the confirmation; with it the host changes."""
    node = fleet.nodes[CANARY]
    keepalive = {"profile": "custom", "time_s": 123}
    wanted = {"linkhold_mode": "enforce", "linkhold_keepalive": keepalive}
    # As a person types it: each is a text.
    agreed = "-e", "linkhold_enforce_confirmed=true", "-e", "linkhold_disk_least_mb=50"

    ran = fleet.play("site", "--limit", CANARY, **wanted)
    assert ran.counts("failed") == {CANARY: 1}
    assert "-e linkhold_enforce_confirmed=true" in ran.text

    ran = fleet.play("site", "--limit", CANARY, *agreed, **wanted)
    assert ran.code == 0, ran.said
    assert node.say("cat", "/proc/sys/net/ipv4/tcp_keepalive_time") == "123"
    # Agreed once is agreed: the same mode again needs no word.
    ran = fleet.play("site", "--limit", CANARY, "--check", **wanted)
    assert ran.counts("changed") == {CANARY: 0}, ran.said


def test_removal(fleet: Fleet) -> None:
    """Uninstall shows its steps in check mode, takes all away with the host's changes, and ends."""
    node = fleet.nodes[CANARY]
    gone = "-e", "linkhold_restore_host=true", "-e", "linkhold_purge=true"

    ran = fleet.play("uninstall", "--check", "--diff", "--limit", CANARY, *gone)
    assert ran.counts("changed") == {CANARY: 2}, ran.said
    assert "+remove /opt/linkhold" in ran.said
    assert set(fleet.everywhere("systemctl", "is-active", "linkhold").values()) == {"active"}

    assert fleet.play("uninstall", *gone, linkhold_serial="100%").code == 0
    assert node.say("cat", "/proc/sys/net/ipv4/tcp_keepalive_time") == "7200"
    places = "/etc /opt /usr/local /var/lib/linkhold"
    found = fleet.everywhere("sh", "-c", f"find {places} -name '*linkhold*' 2>/dev/null")
    assert found == dict.fromkeys(NODES, "")
    again = fleet.play("uninstall", *gone, linkhold_serial="100%")
    assert again.counts("changed") == NOTHING
