"""The collection's gate: what it judges, how long it waits, and what it keeps meanwhile."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.collection import Task, end_of, module

if TYPE_CHECKING:
    from pathlib import Path

WANTED = {
    "networks": ["ok"],
    "before": ["old"],
    "known_alerts": ["link.down", "path.dns_dead resolver 10.0.0.53"],
    "fleet": True,
    "settle_s": 3,
    "timeout_s": 10,
}
DAY_S = 86_400
gate, node_info = module("gate"), module("node_info")


def state(**changed: Any) -> dict[str, Any]:
    """Return the state of a node that is well, but for what is changed."""
    agent = {"leg_a": "up", "leg_b": "up: broker-a:8883", "outbox": "ok"}
    agent |= {name: changed.pop(name) for name in tuple(changed) if name in agent}
    return {"network": "ok", "cause": [], "alerts": [], "detail": {"agent": agent}, **changed}


def alert(**changed: str) -> dict[str, str]:
    """Return an alert."""
    told = {"fingerprint": "new", "type": "bond.degraded", "subject": "bond0"}
    return {**told, "severity": "warning", "text": "bond0 has 1 of 2 members", **changed}


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        (state(), []),
        (state(network="down", cause=["eth0 lost carrier"]), ["network is down (eth0 lost"]),
        (state(network="unknown"), ["network is unknown (no cause is known)"]),
        (state(leg_a="down: refused"), ["the node's own broker is down: refused"]),
        (state(leg_b="connecting"), ["the connection to the fleet's broker is connecting"]),
        (state(outbox="volatile: no space"), ["the outbox is volatile: no space"]),
        (state(alerts=[alert()]), ["new alert bond.degraded bond0: bond0 has 1 of 2 members"]),
        (state(alerts=[alert(fingerprint="old")]), []),
        (state(alerts=[alert(severity="info")]), []),
        (state(alerts=[alert(type="link.down", subject="eth3")]), []),
        (state(alerts=[alert(type="path.dns_dead", subject="resolver 10.0.0.53")]), []),
        (state(alerts=[alert(type="path.dns_dead", subject="resolver ::1")]), ["new alert path"]),
    ],
)
def test_the_gate_judges(document: dict[str, Any], wrong: list[str]) -> None:
    """Each thing that is not well has its words; old, known and informing alerts have none."""
    found = gate.judge(document, WANTED)

    assert len(found) == len(wrong)
    assert all(text.startswith(start) for text, start in zip(found, wrong, strict=True))


def test_a_node_without_a_fleet_needs_none() -> None:
    """Where no broker of a fleet is configured, none must be up."""
    assert gate.judge(state(leg_b="off"), {**WANTED, "fleet": False}) == []


class Host:
    """An AnsibleModule on a node whose answers are scripted, one a second."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.params = WANTED
        self.now_s = 0.0
        self._answers = answers

    def run_command(self, _command: list[str]) -> tuple[int, str, str]:
        """Return the answer of this second, the last one ever after."""
        return self._answers[min(int(self.now_s), len(self._answers) - 1)]

    def monotonic(self) -> float:
        """Stand in for time.monotonic()."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Stand in for time.sleep()."""
        self.now_s += seconds


WELL, ILL = (0, json.dumps(state()), ""), (0, json.dumps(state(network="down")), "")
GONE = (1, "", "linkhold: no agent runs")


@pytest.mark.parametrize(
    ("answers", "took_s", "wrong"),
    [
        ((WELL,), 3, []),
        ((GONE, ILL, WELL), 5, []),
        ((WELL, WELL, ILL, WELL), 6, []),
        ((ILL,), 10, ["network is down (no cause is known)"]),
        ((GONE,), 10, ["the agent does not answer: linkhold: no agent runs"]),
        (((0, "{", ""),), 10, ["linkhold status --json gave no JSON"]),
        ((*[ILL] * 9, WELL), 10, ["it was well only at the very end of the time"]),
    ],
)
def test_the_gate_waits(
    answers: Any, took_s: float, wrong: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens after a time without anything wrong, and stays closed at the end of its time."""
    host = Host(*answers)
    monkeypatch.setattr(gate, "time", host)

    assert gate.wait(host, 0.0) == wrong
    assert host.now_s == took_s


def test_the_gate_tells_what_brokers_refuse() -> None:
    """Of `linkhold check --connect` only what is wrong is told; a broker that is right is not."""
    said = "configuration OK\na:8883: right for n1: its own\nb:8883: cannot be asked: refused\n"
    host = Host((1, said, ""))

    assert gate.brokers(host) == ["the fleet's broker b:8883: cannot be asked: refused"]


@pytest.mark.parametrize("silent", [(2, "", ""), (70, "configuration OK\n", "")])
def test_the_gate_is_closed_when_a_check_fails_without_words(silent: tuple[int, str, str]) -> None:
    """A check that fails and says nothing is no pass."""
    assert gate.brokers(Host(silent)) == [f"linkhold check --connect ended with {silent[0]}"]


def test_what_closed_the_gate_is_none_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the gate opens, the alerts of before are those of the first try."""
    kept = tmp_path / "gate.json"
    tries = iter([["link is down"], [], []])
    monkeypatch.setattr(gate, "KEPT", str(kept))
    monkeypatch.setattr(gate, "wait", lambda *_: next(tries))
    monkeypatch.setattr(node_info, "GATE", str(kept))
    for before, failed in ((["old"], True), (["old", "new"], False)):
        task = Task(before=before, fleet=False)
        monkeypatch.setattr(gate, "AnsibleModule", lambda *_, task=task, **__: task)
        assert end_of(gate.main)["failed"] is failed
        assert node_info.before(["old", "new"]) == (["old"] if failed else ["old", "new"])


@pytest.mark.parametrize(
    ("age_s", "remembered"),
    [
        (DAY_S - 60, True),
        (DAY_S + 60, False),
        (90 * DAY_S, False),
        (60 - DAY_S, True),  # the clock was set back meanwhile
        (-DAY_S - 60, False),
    ],
)
def test_a_gate_that_never_opened_is_forgotten(
    *, age_s: float, remembered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day after the last try its alerts of before are those of now; until then of the first."""
    kept = tmp_path / "gate.json"
    kept.write_text('["old"]')
    os.utime(kept, (time.time() - age_s,) * 2)
    monkeypatch.setattr(gate, "KEPT", str(kept))
    monkeypatch.setattr(node_info, "GATE", str(kept))
    monkeypatch.setattr(gate, "wait", lambda *_: ["link is down"])

    assert node_info.before(["new"]) == (["old"] if remembered else ["new"])

    task = Task(before=["new"], fleet=False)
    monkeypatch.setattr(gate, "AnsibleModule", lambda *_, **__: task)
    assert end_of(gate.main)["failed"] is True
    assert json.loads(kept.read_text()) == (["old"] if remembered else ["new"])
    assert time.time() - kept.stat().st_mtime == pytest.approx(0, abs=60), "this try counts"


@pytest.mark.parametrize("text", ["", "{", "[1", '"x"'])
def test_a_damaged_memory_of_the_gate_is_none(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no list is as if no gate had been closed."""
    monkeypatch.setattr(node_info, "GATE", str(tmp_path / "gate.json"))
    (tmp_path / "gate.json").write_text(text)

    assert node_info.before(["new"]) == ["new"]
