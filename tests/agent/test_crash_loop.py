"""kill -9 again and again: what was committed arrives once and in order, nothing is miscounted."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from linkhold.store.outbox_file import read_history
from support.broker import wait_until
from support.running import agent_of, fleet_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from support.broker import Collector
    from support.netns import Namespace
    from support.running import Running, TiedBroker

KILLS = 10
AT_THE_END = 2
"""Events of the end itself (stopping, leg B off) that may be left for the next session."""
FLIP_PAUSE_S = 0.004


class Flipper:
    """Pulls and plugs a cable in a thread of its own until it is stopped; ends plugged in."""

    def __init__(self, ns: Namespace) -> None:
        self._ns, self._peer = ns, ns.index("p0")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.flips = 0

    def _run(self) -> None:
        while not self._end.wait(FLIP_PAUSE_S):
            self._ns.flip(self._peer, up=False)
            self._end.wait(FLIP_PAUSE_S)
            self._ns.flip(self._peer, up=True)
            self.flips += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)


def kernel_downs(ns: Namespace, name: str = "eth0") -> int:
    """Return how often the kernel says that the link lost carrier."""
    count = f"/sys/class/net/{name}/carrier_down_count"
    # A mount of sysfs shows the network namespace it was made in.
    return int(ns.run("unshare", "-m", "sh", "-c", f"mount -t sysfs sysfs /sys && cat {count}"))


def losses_told(events: list[dict[str, Any]]) -> int:
    """Return how many losses of carrier the events tell."""
    told = 0
    for event in events:
        if event["subject"] == "eth0" and not event["data"].get("initial"):
            bounces = event["data"].get("bounces", 0)
            told += bounces if event["type"] in {"link.up", "link.bounced"} else 0
            told += 1 + bounces if event["type"] == "link.down" else 0
    return told


def in_order_of_commitment(events: list[dict[str, Any]]) -> bool:
    """Tell whether sessions follow each other and seqs grow within each."""
    sessions: list[str] = []
    last = 0
    for event in events:
        session = event["id"].rsplit("-", 2)[1]
        if not sessions or sessions[-1] != session:
            if session in sessions:
                return False
            sessions.append(session)
            last = 0
        if event["seq"] <= last:
            return False
        last = event["seq"]
    return True


def once(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events without repetitions, as receivers see them."""
    return list({event["id"]: event for event in events}.values())


def test_kills_in_a_loop_lose_and_double_nothing(
    ns: Namespace,
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """Ten kills amid flips, no fleet: later all arrives, and the losses told are the kernel's."""
    broker = fleets()
    agent = agents(fleet_config(broker.port)).start().wait_ready()
    wait_until(lambda: agent.types().count("link.up"))
    before = kernel_downs(ns)
    with Flipper(ns) as flipper:
        for number in range(KILLS):
            time.sleep(0.05 + 0.04 * number)
            agent.kill()
            agent.start().wait_ready("")
    assert flipper.flips > 100
    on_call = collect(broker.start())
    ns.flip(ns.index("p0"), up=False)
    ns.flip(ns.index("p0"), up=True)  # a link that comes up makes leg B try at once
    agent.wait_for(lambda s: s["detail"]["links"]["eth0"]["carrier_downs"] == kernel_downs(ns))
    agent.wait_for(lambda s: agent_of(s)["leg_b"].startswith("up"), 15)
    agent.wait_for(lambda s: agent_of(s)["pending"] == 0, 30)
    brokers = len(agent.brokers())
    agent.stop()

    committed = [json.loads(event)["id"] for event in read_history(agent.state_dir, 0, 10**6)]
    arrived = once([json.loads(message.payload) for message in on_call.on("/event/")])
    assert [event["id"] for event in arrived] == committed[: len(arrived)]
    assert len(committed) - len(arrived) <= AT_THE_END
    assert in_order_of_commitment(arrived)
    assert losses_told(arrived) == kernel_downs(ns) - before
    starts = [event["data"] for event in arrived if event["type"] == "agent.started"]
    assert len(starts) == KILLS + 1
    assert all(start["previous_session"] for start in starts[1:])
    assert brokers == 1


def test_what_happens_while_the_agent_is_dead_is_told_at_its_start(
    ns: Namespace, agents: Callable[..., Running]
) -> None:
    """A cable pulled and plugged five times without an agent: one event with the count."""
    agent = agents().start().wait_ready()
    wait_until(lambda: agent.types().count("link.up"))
    agent.kill()
    peer = ns.index("p0")
    for _ in range(5):
        ns.flip(peer, up=False)
        ns.flip(peer, up=True)

    agent.start().wait_ready()

    wait_until(lambda: "link.bounced" in agent.types())
    bounced = [e for e in agent.events() if e["type"] == "link.bounced"]
    assert [(e["data"]["bounces"], e["data"]["while_absent"]) for e in bounced] == [(5, True)]
    agent.kill()
    agent.start().wait_ready()
    time.sleep(0.2)
    assert agent.types().count("link.bounced") == 1


def test_a_start_that_is_killed_leaves_nothing_half_done(
    ns: Namespace, agents: Callable[..., Running]
) -> None:
    """Kill -9 at any moment of the first half second of a start: the next start is whole."""
    agent = agents()
    for number in range(12):
        agent.start()
        time.sleep(0.04 * number)
        agent.kill()

    agent.start().wait_ready()

    assert agent.state()["network"] == "ok"
    assert len(agent.brokers()) == 1
    assert in_order_of_commitment(agent.events())
