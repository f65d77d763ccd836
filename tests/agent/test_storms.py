"""Storms may coalesce edges; the final state and the counts are right soon after."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.broker import wait_until
from support.running import agent_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.netns import Namespace
    from support.running import Running
    from support.trainer import Trainer

RIGHT_WITHIN_S = 3.0
VETHS, FLIPS, STOPPED_FLIPS = 2500, 3000, 4000


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def downs_of(state: dict[str, Any]) -> int:
    """Return how often eth0 lost carrier, as the state says."""
    return int(state["detail"]["links"]["eth0"]["carrier_downs"])


def storm(ns: Namespace, flips: int) -> None:
    """Pull and plug the cable as fast as possible; it ends pulled."""
    peer = ns.index("p0")
    for _ in range(flips):
        ns.flip(peer, up=True)
        ns.flip(peer, up=False)


def told(agent: Running) -> list[str]:
    """Return the types of events, without those of the first look at sysctls and connections."""
    return [one for one in agent.types() if not one.startswith("keepalive.")]


def test_container_churn_costs_little_and_tells_nothing(ns: Namespace, agent: Running) -> None:
    """2,500 veths made and removed: no event, no alert, little CPU."""
    before_s, before = cpu_s(agent.pid), told(agent)
    pairs = range(VETHS // 2)
    ns.batch("".join(f"link add v{n} group 7 type veth peer name w{n}\n" for n in pairs))
    ns.ip("link del group 7")

    wait_until(lambda: agent.state()["mono_ns"] > time.monotonic_ns() - 10**9, 7)
    assert told(agent) == before
    assert list(agent.state()["detail"]["links"]) == ["eth0"]
    assert cpu_s(agent.pid) - before_s < 3


def test_the_state_is_right_after_a_storm_of_flips(
    ns: Namespace, agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """3,000 flips as fast as possible: file, leg A and the counts are right in three seconds."""
    trainer, before = trainers(agent), downs_of(agent.state())
    storm(ns, FLIPS)
    began_s = time.monotonic()

    state = agent.wait_for(lambda s: downs_of(s) == before + FLIPS, RIGHT_WITHIN_S)
    trainer.wait_for(lambda s: downs_of(s) == before + FLIPS, RIGHT_WITHIN_S)

    assert time.monotonic() - began_s < RIGHT_WITHIN_S
    assert state["network"] == "down"
    assert agent_of(state)["leg_a"] == "up"


def test_a_stopped_agent_catches_up(
    ns: Namespace, agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """SIGSTOP during 4,000 flips: the kernel drops messages, and all is read again, and said."""
    trainer, before = trainers(agent), downs_of(agent.state())
    agent.send(signal.SIGSTOP)
    storm(ns, STOPPED_FLIPS)
    agent.send(signal.SIGCONT)

    state = agent.wait_for(lambda s: downs_of(s) == before + STOPPED_FLIPS, RIGHT_WITHIN_S)
    assert state["network"] == "down"
    wait_until(lambda: "agent.resynced" in [e["type"] for e in trainer.events()])
    trainer.wait_for(lambda s: downs_of(s) == before + STOPPED_FLIPS)
    assert agent_of(agent.state())["leg_a"] == "up"
