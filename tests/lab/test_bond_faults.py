"""``linkhold bond apply`` when things go wrong: undone or nothing done, and said in words."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from linkhold.actuators import guard as guard_module
from linkhold.rtnl import exchange
from linkhold.rtnl.exchange import Exchange
from support import furnish, host_state
from support.bond_change import Host, Kill, Steps
from support.lab import Box, scenario
from support.topology import ip, ip_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.bond_change import Done
    from support.lab.host import Lab
    from support.topology import TwoSwitches


FULL = bool(os.environ.get("LINKHOLD_LAB_FULL"))


class Faults:
    """A plain node on which one fault after the other is tried; each must leave it as it was."""

    def __init__(self, box: Box) -> None:
        self.net: TwoSwitches = box.two_switches()
        furnish.quiet_dad()
        self.net.give_address("eth0")
        furnish.settle()
        self.host = Host(box.tmp)
        self.before = host_state.take()
        self.told: dict[str, Any] = {}

    def apply(self, name: str, at: str = "", then: Callable[[], object] | None = None) -> Done:
        """Run apply; right after the operation whose text begins with ``at``, ``then`` happens."""

        def prepare(steps: Steps) -> None:
            if then is not None:
                steps.each = lambda text: _once(text, at, then)

        return self.note(name, self.host.apply(brief=True, prepare=prepare), settle=then is None)

    def note(self, name: str, done: Done, *, settle: bool = True) -> Done:
        """Keep how it ended and what is not as before."""
        self.host.wait_for_guard()
        left = host_state.wait_equal(self.before) if settle else []
        said = done.stderr or done.stdout  # a refusal is part of the plan
        self.told[name] = {"code": done.code, "said": said, "left": left}
        return done


_happened: set[str] = set()


def _once(text: str, at: str, then: Callable[[], object]) -> None:
    """Let it happen after the first operation that begins with ``at``; its process is a fork."""
    if text.startswith(at) and at not in _happened:
        _happened.add(at)
        then()


@scenario(timeout_s=200)
def while_it_runs(box: Box) -> dict[str, Any]:
    """Faults that come in the middle of a change."""
    faults = Faults(box)
    net, host = faults.net, faults.host

    def in_gateway(state: str) -> None:
        ip("link", "set", "g1", state, ns=net.core)

    faults.apply("gateway dies", "set bond0: primary", lambda: in_gateway("down"))
    in_gateway("up")
    faults.told["gateway dies"]["left"] = host_state.wait_equal(faults.before)
    if FULL:  # it waits for a carrier twice
        faults.apply("old NIC's cable", "announce", lambda: net.pull_cable(0))
        net.plug_cable(0)
        faults.told["old NIC's cable"]["left"] = host_state.wait_equal(faults.before)
    faults.apply("answers lost", "ask ", _lose_answers)
    faults.told["answers lost"]["left"] = host_state.wait_equal(faults.before)
    faults.apply("macvlan", "ask ", lambda: ip_batch(["link add link eth0 name mv type macvlan"]))
    subprocess.run(["ip", "link", "del", "mv"], check=False)
    faults.told["macvlan"]["left"] = host_state.wait_equal(faults.before)
    faults.apply(
        "another's address", "ask ", lambda: ip("addr", "add", "10.5.0.2/24", "dev", "eth0")
    )
    faults.told["kept"] = ip("-br", "address", "show", "eth0")
    ip("addr", "del", "10.5.0.2/24", "dev", "eth0")
    faults.told["another's address"]["left"] = host_state.wait_equal(faults.before)
    done = host.apply(brief=True, guard_s=4, kill=Kill(20, "stop"))
    faults.note("hung", done)
    _apply_twice(faults)
    return faults.told


def _lose_answers() -> None:
    """Let the answers to the next burst be lost, as with a full receive buffer."""
    verdicts = Exchange._verdicts

    def lost(*_: object) -> NoReturn:
        vars(exchange)["Exchange"]._verdicts = verdicts
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    vars(exchange)["Exchange"]._verdicts = lost


def _apply_twice(faults: Faults) -> None:
    first = faults.host.start("apply", "--yes")
    first.wait_for("watching for")
    first.signal(signal.SIGSTOP)  # the second one may take its time
    linkhold = Path(sys.executable).with_name("linkhold")
    second = subprocess.run(
        [linkhold, "bond", "remove", "bond0", "--yes"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    faults.told["second"] = {"code": second.returncode, "said": second.stderr}
    first.signal(signal.SIGCONT)
    faults.told["first"] = {"code": first.wait().code}
    faults.host.run("remove", "bond0", "--yes", brief=True)
    faults.told["second"]["left"] = host_state.wait_equal(faults.before)


def test_faults_in_the_middle_of_a_change(lab: Lab) -> None:
    """Each is undone at once and told: what failed, of what, and what to do.

    An address that somebody else adds is no reason to lose it.
    """
    value = lab.run(while_it_runs).value
    told = {name: one["said"] for name, one in value.items() if name not in {"kept", "first"}}

    for name, said in told.items():
        assert (name, value[name]["left"]) == (name, []), said
        assert value[name]["code"] == (-9 if name == "hung" else 1), (name, said)
    for name in ("gateway dies", "macvlan", "another's address", "answers lost"):
        assert "Everything was undone: the host is as before" in told[name], name
    assert "none of 10.0.0.1, fd00::1 answers over bond0" in told["gateway dies"]
    assert "eth0" in told["macvlan"]
    assert "remove the macvlan" in told["macvlan"]
    assert "changed by somebody else" in told["another's address"]
    assert "10.5.0.2/24" in value["kept"]
    assert "another change of the network is at work" in told["second"]
    assert value["first"]["code"] == 0


@scenario(timeout_s=200)
def before_it_begins(box: Box) -> dict[str, Any]:
    """Faults that must keep a change from beginning."""
    faults = Faults(box)
    net, host = faults.net, faults.host
    net.kill_switch(1)
    faults.apply("dead switch")
    net.revive_switch(1)
    net.pull_cable(1)
    faults.apply("no carrier")
    net.plug_cable(1)
    faults.told["no carrier"]["left"] = host_state.wait_equal(faults.before)
    (host.state / "bond").mkdir(parents=True, exist_ok=True)
    _on(host.state, "size=1m,ro")
    faults.apply("read-only")
    _off(host.state)
    _on(host.state, "size=12k")
    faults.apply("disk full")
    _off(host.state)
    (host.state / "bond").mkdir(parents=True, exist_ok=True)
    journal = host.state / "bond/journal.json"
    journal.write_text('{"id": "1", "sta')
    faults.apply("damaged journal")
    journal.unlink()

    def no_python(_steps: Steps) -> None:
        guard_module.READY_S = 1.0
        sys.executable = "/nonexistent/python3"

    faults.note("no guard", host.apply(prepare=no_python))
    faults.note("not root", host.apply(prepare=lambda _steps: os.setuid(65534)))
    return faults.told


def _on(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def _off(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True)


def test_what_keeps_a_change_from_beginning(lab: Lab) -> None:
    """A dead standby, no place for the journal, no guard, no rights: nothing is changed."""
    value = lab.run(before_it_begins).value
    words = {
        "dead switch": "no gateway answers through it",
        "no carrier": "eth1 has no carrier",
        "read-only": "Read-only file system",
        "disk full": "No space left on device",
        "damaged journal": "is damaged",
        "no guard": "the guard that undoes a failed change did not start",
        "not root": "run it as root",
    }

    for name, part in words.items():
        assert (name, value[name]["code"], value[name]["left"]) == (name, 1, []), value[name]
        assert part in value[name]["said"], (name, value[name]["said"])


@scenario(timeout_s=60)
def refused_by_the_kernel(box: Box) -> dict[str, str]:
    """Let the kernel refuse messages of each kind."""
    from linkhold.actuators.compile import step_document
    from linkhold.actuators.perform import perform
    from linkhold.decide.bonding.steps import Burst, Change, DropLink, SetBond, SetLink
    from linkhold.model import HostError

    net = box.two_switches()
    net.make_bond(members=("eth1",), addresses=False)

    def refusal(*changes: Change) -> str:
        try:
            perform(step_document(Burst(changes)))
        except HostError as error:
            return str(error)
        return "nothing"

    while_up = refusal(SetLink("eth0", up=True), SetLink("eth0", master="bond0"))
    ip_batch(["link add link eth0 name mv type macvlan"])
    return {
        "EPERM": while_up,
        "EBUSY": refusal(SetLink("eth0", up=False, master="bond0")),
        "ENOTEMPTY": refusal(SetBond("bond0", {"fail_over_mac": 1})),
        "EINVAL": refusal(SetBond("bond0", {"primary_reselect": 9})),
        "ENODEV": refusal(SetLink("eth7", up=True)),
        "EEXIST": refusal(SetBond("bond0", {"mode": 1}, create=True)),
        "no link": refusal(
            DropLink("mv"),
            SetLink("eth0", up=False, master="bond0"),
            SetLink("eth0", up=False),
            SetBond("bond0", {"active_slave": "eth0"}),
        ),
    }


def test_what_the_kernel_refuses_is_told_with_its_object_and_a_remedy(lab: Lab) -> None:
    """The errno, the kernel's own words, the interface and what to do about it."""
    value: dict[str, str] = lab.run(refused_by_the_kernel).value

    assert "eth0" in value["EBUSY"]
    assert "remove the macvlan" in value["EBUSY"]
    assert "set eth0 into bond0" in value["EPERM"]
    assert "something sets the NIC up again" in value["EPERM"]
    assert "set bond0: fail_over_mac active" in value["ENOTEMPTY"]
    assert "linkhold bond remove" in value["ENOTEMPTY"]
    assert "primary_reselect" in value["EINVAL"]
    assert "eth7: there is no such interface" in value["ENODEV"]
    assert "create bond bond0" in value["EEXIST"]
    assert "look with `ip link`" in value["EEXIST"]
    assert "set bond0: active_slave eth0: the kernel says EINVAL" in value["no link"]
    assert "that member has no link now: check its cable" in value["no link"]
