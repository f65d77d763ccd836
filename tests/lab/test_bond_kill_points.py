"""``linkhold bond`` killed after each of its operations: the host is as it was before, always.

Each kernel change is sent alone and each file write counts, so the points are more than a kill -9
could hit. `make test` takes a sample; `make lab-full` (LINKHOLD_LAB_FULL=1) takes all of them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support import furnish, host_state
from support.bond_change import Host, Kill, guards, mount_cgroups
from support.lab import Box, scenario
from support.topology import ip, wait_until

if TYPE_CHECKING:
    from support.bond_change import Done
    from support.host_state import State
    from support.lab.host import Lab

FULL = bool(os.environ.get("LINKHOLD_LAB_FULL"))
PARTS = 12
GUARD_WITHIN_S = 20.0
SAMPLE = {
    ("apply", "command"): (2, 7),
    ("apply", "group"): (5,),
    ("apply", "cgroup"): (9,),
    ("apply", "both"): (11,),
    ("remove", "command"): (4,),
    ("remove", "both"): (10,),
    ("adjust", "command"): (1, 5),
    ("rollback", "command"): (6,),
    ("rollback", "both"): (),
    ("confirm", "command"): (0,),
}
"""Each kind of kill, and of its twelve parts those that `make test` runs."""
CASES = [
    (verb, how, part)
    for (verb, how), parts in SAMPLE.items()
    for part in (range(PARTS) if FULL else parts)
]


@dataclass
class Trial:
    """One verb, killed again and again; ``before`` is what the host must go back to."""

    host: Host
    verb: str
    how: str
    before: State

    def rehearse(self) -> list[str]:
        """Run it to its end once and return its operations; the host is as before then."""
        if self.verb in {"rollback", "confirm"}:
            self._wait_for_confirmation()
        done = self.host.run(*self._words(), brief=True)
        assert done.code == 0, done.said
        self.reset()
        return done.steps

    def _words(self) -> tuple[str, ...]:
        words = {"adjust": ("apply", "--yes"), "apply": ("apply", "--yes")}
        words["remove"] = ("remove", "bond0", "--yes")
        return words.get(self.verb, (self.verb,))

    def _wait_for_confirmation(self) -> None:
        done = self.host.apply("--manual", brief=True)
        assert done.code == 3, done.said

    def reset(self) -> None:
        """Bring the host back to ``before`` by hand of linkhold, after the change was made."""
        if self.verb in {"apply", "confirm"}:
            assert self.host.run("remove", "bond0", "--yes", brief=True).code == 0
        elif self.verb == "remove":
            assert self.host.apply(brief=True).code == 0
        elif self.verb == "adjust":
            spoil(self.host)
        left = host_state.wait_equal(self.before)
        assert left == [], left

    def kill(self, after: int) -> dict[str, Any]:
        """Kill it after one operation and return what then was not as it should be."""
        if self.verb in {"rollback", "confirm"}:
            self._wait_for_confirmation()
        done = self.host.run(*self._words(), brief=True, kill=Kill(after, self.how))
        took = self.host.wait_for_guard()
        if self.host.is_committed():
            self.reset()
            return _told(done, [], made=True, took=took)
        if self.host.journal() is not None:  # nobody guards it any more, or nothing began
            self.host.run("rollback")
        problems = [
            *self.host.last()["problems"],
            *([] if self.host.journal() is None else ["open"]),
        ]
        return _told(done, host_state.wait_equal(self.before) + problems, took=took)


def _told(done: Done, left: list[str], *, made: bool = False, took: float = 0.0) -> dict[str, Any]:
    last = done.steps[-1] if done.steps else "nothing"
    return {"after": last, "code": done.code, "left": left, "made": made, "took": took}


def spoil(host: Host) -> None:
    """Let the committed bond differ from the configuration: options, and a missing member."""
    host.want(peer_notifications=5, updelay_ms=100)
    ip("link", "set", "eth1", "nomaster")
    ip("link", "set", "eth1", "up")
    ip("link", "set", "bond0", "type", "bond", "num_grat_arp", "3", "updelay", "0")


@scenario(timeout_s=400)
def killed(box: Box, verb: str, how: str, part: int, parts: int) -> dict[str, Any]:
    """Kill ``verb`` after each operation number ``part`` modulo ``parts``."""
    net = box.two_switches()
    if how == "cgroup":
        mount_cgroups()
    furnish.furnish(net)
    host = Host(box.tmp)
    if verb in {"remove", "adjust"}:
        assert host.apply(brief=True).code == 0
        wait_until(lambda: not guards(), "the guard has ended")
    if verb == "adjust":
        spoil(host)
        furnish.settle()
    trial = Trial(host, verb, how, host_state.take())
    steps = trial.rehearse()
    found = [trial.kill(number) for number in range(1 + part, len(steps) + 1, parts)]
    return {"steps": steps, "found": found}


@pytest.mark.timeout(500)
@pytest.mark.parametrize(("verb", "how", "part"), CASES)
def test_a_killed_change_leaves_the_host_as_it_was(
    lab: Lab, verb: str, how: str, part: int
) -> None:
    """Killed before it is committed, a change is undone by the guard, or by a rollback without.

    Killed after, it is made.
    """
    value = lab.run(killed, verb=verb, how=how, part=part, parts=PARTS).value
    found: list[dict[str, Any]] = value["found"]
    steps: list[str] = value["steps"]
    commit = max(at for at, step in enumerate(steps, 1) if step == "journal.json written")
    numbers = range(1 + part, len(steps) + 1, PARTS)

    assert [(one["after"], one["left"]) for one in found if one["left"]] == []
    assert {one["code"] for one in found} == {-9}
    assert max(one["took"] for one in found) < GUARD_WITHIN_S
    assert [one["made"] for one in found] == [
        verb != "rollback" and number >= commit for number in numbers
    ]
