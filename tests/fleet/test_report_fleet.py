"""The report of a fleet by its broker: many nodes are asked, and what is missing is said."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from linkhold.wire import dumps, from_rfc3339, rfc3339
from support import world
from support.broker import MOSQUITTO, Broker
from support.days import Day
from support.html_page import Parsed
from support.running import LINKHOLD

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 1000


class Answering:
    """Nodes that answer ``cmd/replay`` as agents do: oldest first, then how many they were.

    Before each answer comes something that happens just now.
    """

    def __init__(self, broker: Broker) -> None:
        self.days: dict[str, list[dict[str, Any]]] = {}
        self.mute: set[str] = set()
        self.requests: list[str] = []
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_message = self._asked
        self._client.max_inflight_messages_set(200)
        self._client.connect("127.0.0.1", broker.port)
        self._client.subscribe("linkhold/v1/+/+/cmd/replay", 1)
        self._client.loop_start()

    def add(self, day: Day, *, status: bytes = b"online") -> None:
        """Put a node on the broker, with its day as its history."""
        prefix = f"linkhold/v1/{day.site}/{day.node}"
        self.days[prefix] = day.documents
        document = {**day.world.document(), "site": day.site, "node": day.node}
        self._client.publish(f"{prefix}/state", dumps(document), 1, retain=True)
        self._client.publish(f"{prefix}/status", status, 1, retain=True).wait_for_publish(10)

    def _asked(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        assert getattr(message.properties, "MessageExpiryInterval", 0) > 0
        prefix = message.topic.removesuffix("/cmd/replay")
        self.requests.append(prefix)
        if prefix in self.mute:
            return
        request = json.loads(message.payload)
        since_s = from_rfc3339(request["since"])
        known = [one for one in self.days[prefix] if from_rfc3339(one["time"]) >= since_s]
        live = {**self.days[prefix][-1], "id": f"b-live-{len(self.requests)}"}
        live |= {"type": "link.bounced", "time": rfc3339(time.time()), "monotime": 0}
        self._client.publish(f"{prefix}/event/link.bounced", dumps(live), 1)
        for one in known[: request["limit"]]:
            self._client.publish(f"{prefix}/event/{one['type']}", dumps(one), 1)
        count = min(len(known), request["limit"])
        data = {"request": request["request"], "count": count, "missing": 0}
        data |= {"first": known[0]["id"], "last": known[count - 1]["id"]}
        last = self.days[prefix][-1]
        done = {**last, "id": f"{last['id']}9{len(self.requests)}", "type": "agent.replayed"}
        done |= {"data": data, "time": rfc3339(time.time())}
        self._client.publish(f"{prefix}/event/agent.replayed", dumps(done), 1)

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the fleet."""
    if not Path(MOSQUITTO).exists():
        pytest.skip(f"{MOSQUITTO} is not installed; make setup")
    made = Broker(tmp_path / "broker").start()
    yield made
    made.stop()


@pytest.fixture
def nodes(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """Nodes whose last day has just ended."""
    day_s = 86400 + world.START_NS / 1e9
    monkeypatch.setattr(world, "WALL_S", time.time() - day_s - 60)
    made = Answering(broker)
    yield made
    made.close()


def report(broker: Broker, *arguments: str, patience_s: float = 20) -> tuple[Parsed, str]:
    """Write a page to a pipe; return it and what was said on the way."""
    url = f"mqtt://127.0.0.1:{broker.port}"
    code = (
        "import sys; from linkhold.report import ask; from linkhold.cli import main;"
        f"ask.PATIENCE_S = {patience_s}; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "report", "--html", "--broker", url, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert run.returncode == 0, run.stderr
    return Parsed(run.stdout), run.stderr


def day_of(name: str, *, down_s: float = 0.0, storms: int = 0) -> Day:
    """Return a day with an outage, and with so many short ones."""
    day = Day(name, boot=f"boot-{name}")
    day.wait(10_000)
    for _ in range(storms):
        day.lose_member(1)
        day.wait(30)
    if down_s:
        day.lose_network(down_s)
    day.wait(86400 - (day.world.now_ns - world.START_NS) / 1e9)
    return day


def test_every_node_is_asked_once(broker: Broker, nodes: Answering) -> None:
    """Thirty nodes, a few at a time: all their outages are on the page, and nothing is missing."""
    for number in range(30):
        nodes.add(day_of(f"n{number:02}", down_s=60.0 + number if number % 3 == 0 else 0.0))
    parsed, said = report(broker, "--since", "2d")

    assert said == ""
    assert len(nodes.requests) == len({*nodes.requests}) == 30
    assert "10 of 30nodes had trouble" in parsed.text
    assert "1 min 27 s" in parsed.text


def test_a_node_with_a_long_history_is_asked_again(broker: Broker, nodes: Answering) -> None:
    """An answer that is full is followed by another request from where it ended."""
    day = day_of("busy", storms=200, down_s=77)
    nodes.add(day)
    assert len(day.documents) > LIMIT
    parsed, said = report(broker, "--since", "2d")

    assert said == ""
    assert len(nodes.requests) >= 2
    assert "network down1 min 17 s" in parsed.text
    assert "link eth2201" in parsed.text


def test_who_does_not_answer_is_named(broker: Broker, nodes: Answering) -> None:
    """A node that is mute, and one that is offline, do not keep the others from the page."""
    for name in ("good", "mute", "gone"):
        nodes.add(day_of(name, down_s=50), status=b"offline" if name == "gone" else b"online")
    nodes.mute.add("linkhold/v1/lab/mute")
    parsed, said = report(broker, "--since", "2d", patience_s=2)

    assert "1 node did not answer for its past: mute." in said
    assert "2 of 3 nodes told no event" in parsed.text
    assert "linkhold/v1/lab/gone" not in nodes.requests


def test_a_broker_that_passes_no_request_is_not_waited_for(tmp_path: Path) -> None:
    """Who may read and not ask gets the present of all nodes at once, and is told why."""
    acl = tmp_path / "acl"
    acl.write_text("topic read linkhold/#\ntopic write linkhold/v1/+/+/state\n")
    acl.write_text(acl.read_text() + "topic write linkhold/v1/+/+/status\n")
    made = Broker(tmp_path / "closed", f"acl_file {acl}").start()
    nodes = Answering(made)
    try:
        for number in range(20):
            nodes.add(day_of(f"n{number}"))
        began_s = time.monotonic()
        parsed, said = report(made)

        assert time.monotonic() - began_s < 15
        assert "The broker refuses cmd/replay: Not authorized; see its ACL." in said
        assert "20 nodes did not answer" in said
        assert "20 of 20 nodes told no event" in parsed.text
    finally:
        nodes.close()
        made.stop()


def test_one_node_of_the_fleet(broker: Broker, nodes: Answering) -> None:
    """With --node nobody else is asked."""
    for name in ("a", "b"):
        nodes.add(day_of(name, down_s=50))
    parsed, _ = report(broker, "--since", "2d", "--node", "b")

    assert nodes.requests == ["linkhold/v1/lab/b"]
    assert "b: what happened" in parsed.text


def fails(*arguments: str) -> str:
    """Run the command, which must fail, and return what it says."""
    command = [str(LINKHOLD), "report", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode in {1, 64}
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    return run.stderr


def test_what_cannot_be_reported_is_said(tmp_path: Path) -> None:
    """No broker, no file, no event: each in a line, with what to do."""
    empty, other = tmp_path / "empty", tmp_path / "other"
    empty.write_text("")
    other.write_text("no json\n")

    assert "127.0.0.1:1: Connection refused" in fails("--html", "--broker", "mqtt://127.0.0.1:1")
    assert "No such file" in fails("--html", str(tmp_path / "none"))
    assert "nothing is known; allowed:" in fails("--html", str(empty))
    assert "the first line: no JSON" in fails("--html", str(other))
    assert "--html" in fails(str(empty))
    assert "files or brokers" in fails("--html", str(empty), "--broker", "mqtt://b")
    assert "of a fleet: linkhold report --html --broker URL" in fails(
        "--html", "--run-dir", str(tmp_path), "--state-dir", str(tmp_path)
    )


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A page that was there stays until the new one is complete."""
    page, events = tmp_path / "page.html", tmp_path / "events"
    page.write_text("old")
    events.write_text("{}\n")
    fails("--html", str(events), "-o", str(page))
    assert page.read_text() == "old"

    day = day_of("n1", down_s=5)
    events.write_bytes(b"".join(day.lines()))
    command = [str(LINKHOLD), "report", "--html", str(events), "-o", str(page)]
    subprocess.run(command, check=True, timeout=60)

    assert page.read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events", "page.html"]
