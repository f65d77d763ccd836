"""Whole agents that ask beyond the node: who answers, who does not, who never has, who lies."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from support.answering import FakeAws, Server, http_answer
from support.places import GATEWAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.beyond import Beyond
    from support.netns import Namespace
    from support.running import Running

QUICK = "interval_ok: 1s, interval_trouble: 0.2s, timeout: 0.3s"
HEAD = "mqtt: {local: false}\nalerts: {fire_after_s: 0, close_after_s: 0}\n"
CONFIG = f"{HEAD}links: {{eth0: {{expected: true}}}}\npaths: {{{QUICK}}}\n"
NAME = f"gateway {GATEWAY} on eth0"
RESOLVER = f"resolver {GATEWAY}"
AWS = "169.254.169.254"
PAGE = "<html><body>Please sign in</body></html>"


def types(state: dict[str, Any]) -> list[str]:
    """Return the types of the alerts in a state."""
    return [alert["type"] for alert in state["alerts"]]


def verdicts(state: dict[str, Any]) -> dict[str, str]:
    """Return what is known of each thing that is asked."""
    return {name: one["verdict"] for name, one in state["detail"]["probes"].items()}


def causes(state: dict[str, Any]) -> list[str]:
    """Return the kinds of the causes that stand."""
    return [one["kind"] for one in state["detail"]["beyond"]]


@pytest.fixture
def asking(agents: Callable[..., Running]) -> Running:
    """An agent that asks often, and has heard the gateway and its resolver."""
    agent = agents(CONFIG).start().wait_ready("")
    agent.wait_for(lambda s: set(verdicts(s).values()) == {"alive"}, 5)
    return agent


def test_it_asks_without_being_told_to(agent: Running, beyond: Beyond) -> None:
    """By default: the gateway by ARP and the host's own resolver for the root, and nobody else."""
    state = agent.wait_for(lambda s: set(verdicts(s).values()) == {"alive"}, 8)

    assert set(verdicts(state)) == {NAME, RESOLVER}
    assert (state["network"], state["alerts"]) == ("ok", [])
    assert state["detail"]["metadata"]["verdict"] == "not_asked"
    assert beyond.asked["arp"] >= 1
    assert beyond.asked["dns"] >= 1
    assert "beyond: 2 of 2 answer" in agent.cli("status").stdout


def test_a_gateway_dies_and_comes_back(asking: Running, beyond: Beyond) -> None:
    """Behind a link with carrier it is a network that is down: one alert; and over with it."""
    beyond.speaks = set()
    down = asking.wait_for(lambda s: s["network"] == "down", 6)
    assert f"{NAME} does not answer (" in " ".join(down["cause"])
    asking.wait_for(lambda s: types(s) == ["network.down"], 5)

    beyond.speaks = {"arp", "icmp", "dns"}
    asking.wait_for(lambda s: s["network"] == "ok" and not s["alerts"], 6)
    told = [one["type"] for one in asking.events() if one["subject"] == NAME]
    assert told == ["path.path_dead", "path.alive"]


def test_a_dead_gateway_stays_dead_over_a_restart(asking: Running, beyond: Beyond) -> None:
    """The next agent does not take it for one that never answered: uploads stay on hold."""
    beyond.speaks = set()
    asking.wait_for(lambda s: s["advice"]["uploads"] == "hold", 8)
    asking.stop()
    state = asking.start().wait_ready("").state()

    assert (state["network"], state["advice"]["uploads"]) == ("down", "hold")
    asking.wait_for(lambda s: s["detail"]["agent"]["counters"].get("path_probes", 0) > 6, 8)
    assert asking.state()["network"] == "down"


@pytest.mark.parametrize("speaks", ["arp", "icmp"])
def test_a_gateway_may_answer_one_way(
    agents: Callable[..., Running], beyond: Beyond, speaks: str
) -> None:
    """ARP alone or echoes alone (the kernel still needs its MAC): it is alive."""
    beyond.speaks = {"arp", "dns"} if speaks == "arp" else {"arp", "icmp", "dns"}
    agent = agents(CONFIG).start().wait_ready("")
    agent.wait_for(lambda s: verdicts(s).get(NAME) == "alive", 5)
    agent.wait_for(lambda s: s["detail"]["agent"]["counters"]["path_probes"] > 8, 8)

    assert agent.state()["network"] == "ok"


def test_a_gateway_that_never_answers_is_unknown(
    agents: Callable[..., Running], beyond: Beyond
) -> None:
    """Neither fine nor down: a person is told that it never answered, and nothing is held."""
    beyond.speaks = set()
    agent = agents(CONFIG).start().wait_ready("")
    state = agent.wait_for(lambda s: s["network"] == "unknown", 6)
    state = agent.wait_for(lambda s: types(s) == ["path.path_dead"], 5)
    assert "and never has since the start" in state["alerts"][0]["text"]
    assert state["advice"]["uploads"] == "go"
    assert verdicts(state)[NAME] == "mute"

    beyond.speaks = {"arp", "dns"}
    agent.wait_for(lambda s: s["network"] == "ok" and not s["alerts"], 6)
    assert "network.down" not in agent.types()


def test_dns_is_dead_while_links_are_fine(asking: Running, beyond: Beyond) -> None:
    """A cause of its own: degraded, one alert, uploads go on."""
    beyond.speaks = {"arp", "icmp"}
    state = asking.wait_for(lambda s: types(s) == ["path.dns_dead"], 8)

    assert (state["network"], state["advice"]["uploads"]) == ("degraded", "go")
    assert f"{RESOLVER} does not resolve" in state["cause"][0]


def test_a_storage_that_is_away_holds_uploads_and_not_training(
    agents: Callable[..., Running], ns: Namespace
) -> None:
    """Links and gateway are fine: uploads wait, training goes on, the state is degraded."""
    ns.ip("addr add 10.7.0.1/32 dev lo")
    target = "targets: [{name: checkpoints, tcp: '10.7.0.1:2049', storage: true}]"
    with Server(socket.SOCK_STREAM, "10.7.0.1", 2049, lambda _: None):
        agent = agents(f"{HEAD}paths: {{{QUICK}, {target}}}\n").start().wait_ready("")
        agent.wait_for(lambda s: verdicts(s).get("checkpoints") == "alive", 5)
    state = agent.wait_for(lambda s: s["advice"]["uploads"] == "hold", 10)

    assert (state["network"], state["advice"]["training"]) == ("degraded", "go")
    assert types(state) == ["path.storage_dead"]


def test_a_lost_default_route_is_one_event_and_one_alert(asking: Running, ns: Namespace) -> None:
    """The links tell it; probes add that it explains who is dead because of it."""
    ns.ip(f"route del default via {GATEWAY}")
    state = asking.wait_for(lambda s: types(s) == ["network.down"], 6)
    assert f"default route via {GATEWAY} on eth0 is gone" in state["cause"]
    asking.wait_for(lambda s: "default_route_lost" in causes(s), 2)
    told = [one["type"] for one in asking.events() if "route" in one["type"]]
    assert told == ["route.default_removed"]

    ns.ip(f"route add default via {GATEWAY}")
    asking.wait_for(lambda s: s["network"] == "ok" and not s["alerts"], 8)


def test_a_pulled_cable_makes_nobody_dead(asking: Running, ns: Namespace, beyond: Beyond) -> None:
    """The link explains it: no word of the gateway, which is known again afterwards."""
    ns.ip("link set p0 down")
    asking.wait_for(lambda s: types(s) == ["network.down"], 5)
    ns.ip("link set p0 up")
    asking.wait_for(lambda s: s["network"] == "ok" and verdicts(s).get(NAME) == "alive", 8)
    assert [one for one in asking.events() if one["subject"] == NAME] == []

    beyond.speaks = set()
    asking.wait_for(lambda s: s["network"] == "down", 6)


@pytest.mark.parametrize(
    ("lie", "verdict"),
    [
        (http_answer(200, PAGE), "unknown"),
        (http_answer(302, headers="Location: http://login.example.net/\r\n"), "unknown"),
        (http_answer(401), "unknown"),
        (http_answer(500, PAGE), "unknown"),
        (None, "gone"),
    ],
    ids=["page", "redirect", "401", "500", "silent"],
)
def test_metadata_that_answered_and_lies_or_dies(
    agents: Callable[..., Running], ns: Namespace, lie: bytes | None, verdict: str
) -> None:
    """Asked because the owner wants it; found by its answer; then no word of it is believed."""
    ns.ip(f"addr add {AWS}/32 dev lo")
    fake = FakeAws()
    with Server(socket.SOCK_STREAM, AWS, 80, fake) as server:
        config = f"{HEAD}paths: {{{QUICK}, metadata: always, metadata_interval: 1s}}\n"
        agent = agents(config).start().wait_ready("")
        state = agent.wait_for(lambda s: s["detail"]["metadata"]["verdict"] == "reachable", 6)
        assert (state["detail"]["metadata"]["vendor"], state["network"]) == ("Amazon EC2", "ok")
        fake.lie = lie
        state = agent.wait_for(lambda s: types(s) == [f"metadata.{verdict}"], 8)
        assert state["network"] == "ok"
        assert "metadata service: Amazon EC2, " in agent.cli("status").stdout
        del server.asked[:]
        fake.lie = b""
        agent.wait_for(lambda s: not s["alerts"], 8)

    assert [kind for kind in agent.types() if kind.startswith("metadata.")] == [
        "metadata.reachable",
        f"metadata.{verdict}",
        "metadata.reachable",
    ]


def test_nothing_is_sent_to_a_metadata_service_of_no_cloud(
    agents: Callable[..., Running], ns: Namespace
) -> None:
    """A host that names no cloud asks nobody, whatever stands at the address."""
    ns.ip(f"addr add {AWS}/32 dev lo")
    with Server(socket.SOCK_STREAM, AWS, 80, FakeAws()) as server:
        agent = agents(f"{HEAD}paths: {{{QUICK}, metadata_interval: 1s}}\n")
        agent.start().wait_ready("")
        agent.wait_for(lambda s: s["detail"]["agent"]["counters"].get("path_probes", 0) > 6, 15)

    assert server.asked == []
