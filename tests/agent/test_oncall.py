"""A real agent's fault becomes a page; planned work pages nobody; its metrics are there."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.config.metrics import MetricsSettings
from linkhold.exporter import Exporter
from linkhold.wire.metrics import families
from support.broker import free_port, wait_until
from support.days import Day
from support.metrics import lenient, strict
from support.oncall import ALERTMANAGER, FILES, Alertmanager, RelayProcess, Webhook
from support.prometheus import PROMETHEUS, Prometheus
from support.running import ENVIRONMENT, LINKHOLD, Running, TiedBroker, agent_of, fleet_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.netns import Namespace


def maintenance(relay: RelayProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``linkhold maintenance`` with the relay's configuration."""
    command = [str(LINKHOLD), "maintenance", *arguments, "--config", str(relay.config)]
    return subprocess.run(
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False
    )


def start(agent: Running) -> Running:
    """Start an agent and wait for its fleet."""
    agent.start().wait_ready()
    agent.wait_for(lambda s: agent_of(s)["leg_b"].startswith("up"))
    return agent


def test_a_pulled_cable_is_a_page_unless_work_is_planned(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    ns: Namespace,
    place: Path,
) -> None:
    """The agent's own alert reaches the pager with its text.

    While planned work is announced it does not, also after the agent was killed and started
    again.
    """
    if not Path(ALERTMANAGER).exists():
        pytest.skip("prometheus-alertmanager is not installed; make setup")
    broker = fleets().start()
    webhook = Webhook()
    alertmanager = Alertmanager(place / "am", webhook).start()
    relay = RelayProcess(place / "relay", "relay", [broker], [alertmanager.url]).start()
    try:
        agent = start(agents(fleet_config(broker.port)))
        done = maintenance(relay, "n1", "--for", "30m", "--why", "new optic")
        assert done.stdout.startswith("maintenance is announced until "), done.stderr
        assert done.returncode == 0
        work = agent.state()["maintenance"]
        assert (work["why"], work["until"] > work["since"]) == ("new optic", True)

        show = [str(LINKHOLD), "status", "--run-dir", str(agent.run_dir)]
        shown = subprocess.run(show, capture_output=True, text=True, check=True, timeout=30)
        assert ": new optic; nobody is paged for this node" in shown.stdout

        agent.kill()
        start(agent)
        ns.ip("link set p0 down")
        agent.wait_for(lambda s: [a["type"] for a in s["alerts"]] == ["network.down"])
        kept = agent.state()["maintenance"]
        assert (kept["id"], kept["until_mono_ns"]) == (work["id"], work["until_mono_ns"])
        assert webhook.pages() == []

        done = maintenance(relay, "n*", "--end", "--json")
        assert json.loads(done.stdout) == {"told": ["n1"], "silent": [], "offline": []}
        wait_until(lambda: webhook.told("NodeNetworkDown"), 20, "a page")
        (alert,) = webhook.told("NodeNetworkDown")[0].alerts
        assert "no way out carries" in alert["annotations"]["protection"]
        assert "eth0" in alert["annotations"]["summary"]
        assert alert["annotations"]["next"] == "ssh n1 linkhold diagnose"
    finally:
        relay.kill()
        alertmanager.kill()
        webhook.close()


def test_wrong_calls_of_maintenance_say_what_to_do(
    fleets: Callable[..., TiedBroker], place: Path
) -> None:
    """Without a reason, a node or a broker the command says what is missing."""
    broker = fleets().start()
    relay = RelayProcess(place / "relay", "relay", [broker], ["http://127.0.0.1:1"])
    assert "why: say in 1 to 200 printable characters" in maintenance(relay, "n1").stderr
    unknown = maintenance(relay, "n9", "--why", "x")
    assert "no node 'n9' is known to the brokers; known: none" in unknown.stderr
    long = maintenance(relay, "n1", "--why", "x", "--for", "9d")
    assert (long.returncode, "allowed: 1m to 7d" in long.stderr) == (64, True)
    broker.kill()
    away = maintenance(relay, "n1", "--why", "x")
    assert "no broker of the fleet answers: 127.0.0.1:" in away.stderr
    assert "Traceback" not in away.stderr


def test_an_agent_shows_its_metrics(
    agents: Callable[..., Running], ns: Namespace, place: Path
) -> None:
    """The textfile and the endpoint show the node as it was at the last heartbeat."""
    textfile, port = place / "linkhold.prom", free_port()
    config = f"metrics: {{textfile: {textfile}, listen: '127.0.0.1:{port}'}}\n"
    agents(config).start().wait_ready()
    wait_until(textfile.exists, 15, "the first heartbeat")

    def value(name: str, **labels: str) -> Any:
        text = textfile.read_text()
        for family in lenient(text):
            for one in family.samples:
                if one.name == name and labels.items() <= one.labels.items():
                    return one.value
        return None

    assert value("linkhold_network_state", state="ok") == 1
    ns.ip("link set p0 down")
    wait_until(lambda: value("linkhold_network_state", state="down") == 1, 15, "network down")
    assert value("linkhold_link_carrier", device="eth0") == 0
    assert value("linkhold_link_carrier_lost_total", device="eth0") >= 1
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Accept": "application/openmetrics-text"}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        names = {one.name for one in strict(answer.read().decode())}
    assert {"linkhold_link_carrier_lost", "linkhold_alerts", "linkhold_agent_events"} <= names


def test_every_query_of_the_dashboard_finds_something(
    agents: Callable[..., Running], fleets: Callable[..., TiedBroker], ns: Namespace, place: Path
) -> None:
    """What Grafana asks, a real Prometheus answers from a real agent and a real relay.

    A bond and a UPS are of a simulated host, by the agent's own code: here are none.
    """
    if not Path(PROMETHEUS).exists():
        pytest.skip("prometheus is not installed; make setup")
    port, broker = free_port(), fleets().start()
    agent = agents(fleet_config(broker.port) + f"metrics: {{listen: '127.0.0.1:{port}'}}\n")
    relay = RelayProcess(place / "relay", "relay", [broker], ["http://127.0.0.1:1"]).start()
    simulated = Exporter(MetricsSettings(listen=f"127.0.0.1:{free_port()}"))
    day = Day()
    day.lose_mains(60, back=False)
    simulated.show(tuple(families(day.world.document(), "1", time.time())))
    start(agent)
    ports = [port, relay.metrics_port, simulated.port]
    prometheus = Prometheus(place / "prometheus", ports)
    try:
        wait_until(lambda: len(prometheus.series("linkhold_relay_info")) == 1, 20, "the relay")
        wait_until(lambda: len(prometheus.series("linkhold_agent_info")) == 2, 20, "the agents")
        dashboard = json.loads((FILES / "grafana-fleet.json").read_text())
        asked = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
        for text in asked:
            expression = text.replace("$node", ".*")
            wait_until(lambda asked=expression: prometheus.series(asked), 15, text)  # type: ignore[misc]
        assert prometheus.problems() == []
    finally:
        prometheus.kill()
        relay.kill()
        simulated.close()
