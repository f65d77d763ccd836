"""The ready-made files: Alertmanager, Prometheus and Grafana take them, and they fit the code."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from linkhold.model import Moment
from linkhold.relay.decide.groups import NEXT as GROUPS
from linkhold.relay.decide.inhibit import RULES
from linkhold.relay.decide.picture import Picture
from linkhold.relay.report import families as relay_families
from linkhold.wire.metrics import families
from linkhold.wire.openmetrics import Family, Kind, render
from support.oncall import FILES
from support.swarm import SwarmNode
from unit.test_relay_picture import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

AMTOOL, PROMTOOL = "/usr/bin/amtool", "/usr/bin/promtool"
METRIC = re.compile(r"\blinkhold_[a-z0-9_]+")


def checked(program: str, *arguments: str, given: bytes = b"") -> str:
    """Run a checker, with ``given`` as its standard input, and return what it says."""
    if not Path(program).exists():
        pytest.skip(f"{program} is not installed; make setup")
    done = subprocess.run([program, *arguments], input=given, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return done.stdout.decode()


def shown() -> list[Family]:
    """Return every metric of agent and relay."""
    document = json.loads(SwarmNode("lab", "n1").state())["data"]
    document["detail"]["agent"] = {"counters": {"x": 1}}
    picture = Picture(SETTINGS, Moment(0, 0.0))
    return [
        *families(document, "1", 1.0),
        *relay_families(picture, {"x": 1}, pending=0, cpu_s=1.0, version="1"),
    ]


def known_names() -> set[str]:
    """Return the name of every sample that agent and relay show."""
    found = shown()
    return {one.name + ("_total" if one.kind is Kind.COUNTER else "") for one in found}


def unknown(expressions: Iterable[str]) -> set[str]:
    """Return the metrics that expressions name and nobody shows."""
    return {name for text in expressions for name in METRIC.findall(text)} - known_names()


def test_alertmanager_takes_its_configuration() -> None:
    """The file is valid, and everything that many nodes have in common is told first."""
    assert "SUCCESS" in checked(AMTOOL, "check-config", str(FILES / "alertmanager.yml"))
    for name in (*GROUPS, "FleetUnseen", "FleetPartUnseen"):
        arguments = ("config", "routes", "test", f"--config.file={FILES}/alertmanager.yml")
        assert checked(AMTOOL, *arguments, f"alertname={name}").strip() == "on-call"
    for name, receiver in (("NodeWasIsolated", "tickets"), ("LinkholdRelayAlive", "dead-man")):
        arguments = ("config", "routes", "test", f"--config.file={FILES}/alertmanager.yml")
        assert checked(AMTOOL, *arguments, f"alertname={name}").strip() == receiver


def test_other_sinks_keep_quiet_what_alertmanager_does() -> None:
    """The rules in code, for Apprise, say the same as the file: same sources, targets, labels."""
    document = yaml.safe_load((FILES / "alertmanager.yml").read_text())
    names = [*GROUPS, "FleetUnseen", "FleetBrokerDown", "FleetPartUnseen", "NodeOffline"]
    names += [f"Node{rest}" for rest in ("LinkDown", "LinkFlapping", "BondDegraded", "PowerLow")]
    in_file, in_code = (
        {
            (source, name, equal)
            for source, matchers, equal in rules
            for name in names
            if all(re.fullmatch(pattern, name) for pattern in matchers)
        }
        for rules in (
            [_inhibiting(one) for one in document["inhibit_rules"]],
            [(rule.source, [rule.target], rule.equal) for rule in RULES],
        )
    )
    assert in_file == in_code


def _inhibiting(rule: Mapping[str, Any]) -> tuple[str, list[str], tuple[str, ...]]:
    """Return source, patterns of targets and equal labels of a rule of the file."""
    (source,) = rule["source_matchers"]
    patterns = []
    for matcher in rule["target_matchers"]:
        operator, text = re.fullmatch(r"alertname (=~|!=|=) \"?(.+?)\"?", matcher).groups()  # type: ignore[union-attr]
        patterns.append(f"(?!{text}$).*" if operator == "!=" else text)
    return source.removeprefix("alertname = "), patterns, tuple(rule.get("equal", ()))


def test_names_and_units_are_prometheus_convention() -> None:
    """The lint of promtool, which it prints to standard error, has nothing to say."""
    assert shown()
    checked(PROMTOOL, "check", "metrics", given=render(shown()))
    bad = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=b"x_milliseconds 1\n",
        capture_output=True,
        check=False,
    )
    assert bad.returncode != 0


def test_prometheus_takes_the_rules() -> None:
    """The rules are valid, and every metric in them is one that agent or relay shows."""
    path = FILES / "linkhold.rules.yml"
    assert "SUCCESS" in checked(PROMTOOL, "check", "rules", str(path))
    expressions = re.findall(r"expr: (.+)", path.read_text())
    assert len(expressions) > 10
    assert unknown(expressions) == set()


def test_the_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    """Every query of the dashboard is valid and names metrics that are there."""
    dashboard = json.loads((FILES / "grafana-fleet.json").read_text())
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    assert unknown(expressions) == set()
    plain = [text.replace("$node", ".*") for text in expressions]
    rules = [{"record": f"x:r{n}", "expr": text} for n, text in enumerate(plain)]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    checked(PROMTOOL, "check", "rules", str(path))
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_rules_fire_when_they_should(tmp_path: Path) -> None:
    """Old metrics, a lost leg and alerts that wait raise their alerts; a node that is well none."""
    rules = yaml.safe_load((FILES / "linkhold.rules.yml").read_text())["groups"]
    texts = {rule.get("alert"): rule.get("annotations") for g in rules for rule in g["rules"]}
    series = [
        {"series": 'linkhold_state_timestamp_seconds{instance="a"}', "values": "0x20"},
        {"series": 'linkhold_state_timestamp_seconds{instance="b"}', "values": "0+60x20"},
        {"series": 'linkhold_leg_state{instance="a",leg="b",state="down"}', "values": "1x20"},
        {"series": 'linkhold_leg_state{instance="b",leg="b",state="down"}', "values": "0x20"},
        {"series": 'linkhold_relay_alerts_waiting{instance="r"}', "values": "2x20"},
    ]
    alerts = (
        ("LinkholdMetricsOld", {"instance": "a", "severity": "warning"}),
        (
            "LinkholdFleetLegDown",
            {"instance": "a", "leg": "b", "state": "down", "severity": "warning"},
        ),
        ("LinkholdRelayAlertsWait", {"instance": "r", "severity": "critical"}),
    )
    tests = [
        {
            "eval_time": "15m",
            "alertname": name,
            "exp_alerts": [{"exp_labels": labels, "exp_annotations": _filled(texts[name], labels)}],
        }
        for name, labels in alerts
    ]
    document = {
        "rule_files": [str(FILES / "linkhold.rules.yml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": tests}],
    }
    path = tmp_path / "test.yml"
    path.write_text(json.dumps(document))
    assert "SUCCESS" in checked(PROMTOOL, "test", "rules", str(path))


def _filled(texts: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    return {
        name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
        for name, text in texts.items()
    }
