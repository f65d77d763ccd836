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
GUARD_WITHIN_S = 20.0
SAMPLE = {
    "apply": {"command": 4, "group": 1, "cgroup": 1, "both": 1},
    "remove": {"command": 2, "both": 1},
    "adjust": {"command": 1},
    "rollback": {"command": 2, "both": 0},
    "confirm": {"command": 1},
}
"""Each way of dying, and at how many points, evenly spread, `make test` tries it."""
JOURNAL = "journal.json written"
"""Done for the last time, it commits the change."""
PARTS = 8
PIECES = [(part, PARTS) for part in range(PARTS)] if FULL else [(0, 0)]


@dataclass
class Trial:
    """One verb, killed again and again; ``before`` is what the host must go back to."""

    host: Host
    verb: str
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
        words = {"adjust": "apply --yes", "apply": "apply --yes", "remove": "remove bond0 --yes"}
        return tuple(words.get(self.verb, self.verb).split())

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

    def kill(self, after: int, how: str) -> dict[str, Any]:
        """Kill it after one operation and return what then was not as it should be."""
        if self.verb in {"rollback", "confirm"}:
            self._wait_for_confirmation()
        done = self.host.run(*self._words(), brief=True, kill=Kill(after, how))
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
    return {
        "after": done.steps[-1] if done.steps else "nothing",
        "code": done.code,
        "left": left,
        "made": made,
        "operations": len(done.steps),
        "took": took,
        "written": done.steps.count(JOURNAL),
    }


def spoil(host: Host) -> None:
    """Let the committed bond differ from the configuration: options, and a missing member."""
    host.want(peer_notifications=5, updelay_ms=100)
    ip("link", "set", "eth1", "nomaster")
    ip("link", "set", "eth1", "up")
    ip("link", "set", "bond0", "type", "bond", "num_grat_arp", "3", "updelay", "0")


@scenario(timeout_s=900)
def killed(box: Box, verb: str, hows: dict[str, int], part: int, parts: int) -> dict[str, Any]:
    """Kill ``verb`` in all the ways ``hows``.

    At every operation number ``part`` modulo ``parts``; with no parts at as many as ``hows`` says.
    """
    net = box.two_switches()
    mount_cgroups()
    furnish.furnish(net)
    host = Host(box.tmp)
    if verb in {"remove", "adjust"}:
        assert host.apply(brief=True).code == 0
        wait_until(lambda: not guards(), "the guard has ended")
    if verb == "adjust":
        spoil(host)
        furnish.settle()
    trial = Trial(host, verb, host_state.take())
    steps = trial.rehearse()
    found = []
    for at, (how, count) in enumerate(hows.items()):
        numbers = range(1 + part, len(steps) + 1, parts) if parts else _spread(steps, count, at)
        found += [{"at": number, **trial.kill(number, how)} for number in numbers]
    return {"steps": steps, "found": found}


def _spread(steps: list[str], count: int, shift: int) -> list[int]:
    """Return ``count`` operations, spread evenly; each way of dying hits other ones."""
    return [
        1 + (len(steps) * (2 * n + 1) // (2 * count) + 3 * shift) % len(steps) for n in range(count)
    ]


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(("part", "parts"), PIECES)
@pytest.mark.parametrize("verb", SAMPLE)
def test_a_killed_change_leaves_the_host_as_it_was(
    lab: Lab, verb: str, part: int, parts: int
) -> None:
    """Killed before it is committed, a change is undone by the guard, or by a rollback without.

    Killed after, it is made.
    """
    value = lab.run(killed, verb=verb, hows=SAMPLE[verb], part=part, parts=parts).value
    found: list[dict[str, Any]] = value["found"]
    steps: list[str] = value["steps"]

    assert found or part >= len(steps)  # a verb of few operations fills few parts
    assert [(one["after"], one["left"]) for one in found if one["left"]] == []
    # One that needs fewer operations than the rehearsal, with neighbours forgotten, ends before.
    assert {one["code"] for one in found if one["operations"] >= one["at"]} <= {-9}
    assert all(one["took"] < GUARD_WITHIN_S for one in found)
    for one in found:
        committed = one["written"] == steps.count(JOURNAL)
        assert one["made"] == (verb != "rollback" and committed), one
