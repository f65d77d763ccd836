"""The spine: a cable pulled in a namespace is heard by everybody who listens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.broker import wait_until
from support.running import fleet_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.broker import Collector
    from support.netns import Namespace
    from support.running import Running, TiedBroker
    from support.trainer import Trainer


def test_everybody_hears_of_a_pulled_cable(
    ns: Namespace,
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    trainers: Callable[..., Trainer],
    collect: Callable[..., Collector],
) -> None:
    """State file, leg A and fleet all say down, and all say up again when it is back."""
    broker = fleets().start()
    on_call = collect(broker)
    agent = agents(fleet_config(broker.port)).start().wait_ready()
    trainer = trainers(agent)
    agent.wait_for(lambda s: s["detail"]["agent"]["leg_b"].startswith("up"))
    peer = ns.index("p0")

    for up, word, event in ((False, "down", "link.down"), (True, "ok", "link.up")):
        before = len(on_call.on(f"event/{event}"))
        ns.flip(peer, up=up)

        state = agent.wait_for(lambda s, w=word: s["network"] == w)  # type: ignore[misc]
        assert state["detail"]["links"]["eth0"]["carrier"] is up
        trainer.wait_for(lambda s, w=word: s["network"] == w)  # type: ignore[misc]
        wait_until(lambda e=event: trainer.on(f"lab/n1/event/{e}"))  # type: ignore[misc]
        wait_until(lambda e=event, b=before: len(on_call.on(f"event/{e}")) > b)  # type: ignore[misc]
        wait_until(lambda w=word: _network(on_call) == w)  # type: ignore[misc]


def _network(collector: Collector) -> str:
    states = [m for m in collector.messages if m.topic == "linkhold/v1/lab/n1/state"]
    return str(json.loads(states[-1].payload)["data"]["network"])


def test_the_first_state_is_a_whole_one(agents: Callable[..., Running]) -> None:
    """Ready means the first look is in the state: no file without links is ever seen."""
    agent = agents()
    for _ in range(3):
        agent.start()
        file = agent.run_dir / "state.json"
        wait_until(file.exists)
        first = json.loads(file.read_bytes())

        assert first["detail"]["links"]["eth0"]["carrier"] is True
        assert first["network"] == "ok"
        agent.stop()
        file.unlink()
