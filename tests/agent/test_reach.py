"""Whole agents that ask beyond the node: a gateway that is dead, a storage that is away.

This machine's resolvers are not reached from the namespace: that is no part of the rules here.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from support.answering import Server
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.running import Running

CONFIG = """
mqtt: {local: false}
alerts: {fire_after_s: 0, close_after_s: 0}
paths:
  watch: true
  interval_ok: 1s
  interval_trouble: 0.2s
  timeout: 0.3s
  targets: [{name: checkpoints, tcp: "10.0.0.1:2049", storage: true}]
"""


@pytest.fixture
def router(ns: Namespace) -> Iterator[Namespace]:
    """The gateway behind eth0, with a storage that listens."""
    with Namespace() as made:
        ns.ip("link del eth0")
        ns.veth("eth0", "lan", other=made)
        ns.ip("addr add 10.0.0.2/24 dev eth0")
        made.ip("addr add 10.0.0.1/24 dev lan")
        ns.ip("route add default via 10.0.0.1")
        yield made


def test_a_gateway_that_is_dead_is_a_network_that_is_down(
    router: Namespace, agents: Callable[..., Running]
) -> None:
    """Behind a link with carrier; it is one alert, and over when the gateway answers again."""
    with router.enter():
        storage = Server(socket.SOCK_STREAM, "10.0.0.1", 2049, lambda _: None)
    with storage:
        agent = agents(CONFIG).start().wait_ready("")
        agent.wait_for(lambda s: s["detail"]["agent"]["counters"]["path_probes"] > 5, 5)
        assert agent.state()["network"] != "down"
        router.ip("addr del 10.0.0.1/24 dev lan")
        down = agent.wait_for(lambda s: s["network"] == "down", 6)
        assert "gateway 10.0.0.1 on eth0 does not answer" in " ".join(down["cause"])
        agent.wait_for(lambda s: types(s) == ["network.down"], 5)
        router.ip("addr add 10.0.0.1/24 dev lan")
        agent.wait_for(lambda s: s["network"] != "down", 6)

    assert "path.path_dead" in agent.types()


def test_a_storage_that_is_away_holds_uploads_and_not_training(
    router: Namespace, agents: Callable[..., Running]
) -> None:
    """Links and gateway are fine: uploads wait, training goes on, the state is degraded."""
    agent = agents(CONFIG).start().wait_ready("")
    state = agent.wait_for(lambda s: s["advice"]["uploads"] == "hold", 10)

    assert state["network"] == "degraded"
    assert state["advice"]["training"] == "go"
    assert "path.storage_dead" in types(state)


def types(state: dict[str, Any]) -> list[str]:
    """Return the types of the alerts in a state."""
    return [alert["type"] for alert in state["alerts"]]
