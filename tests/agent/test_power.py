"""Whole agents that hear of power: a real upsd with dummy-ups, real sensors' words on MQTT."""

from __future__ import annotations

import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.nut import UPSD, Nut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.netns import Namespace
    from support.running import Running

QUIET = "mqtt: {local: false}\nnotices: {cloud: never, logind: false}\n"


@pytest.fixture
def nut(ns: Namespace, tmp_path: Path) -> Iterator[Nut]:
    """An upsd with one UPS, on line."""
    if not shutil.which(UPSD):
        pytest.skip("nut-server is not installed")
    made = Nut(tmp_path, "ups1")
    yield made.start()
    made.stop()


def nut_config(nut: Nut, more: str = "") -> str:
    """Return a configuration that asks this upsd twice a second."""
    return (
        f"{QUIET}policy: {{mains_back_s: 2, save_time_s: 10}}\n"
        f"power: {{poll: 0.5s, nut: [{{name: ups-a, ups: ups1, port: {nut.port}}}]{more}}}\n"
    )


def alerts(state: dict[str, Any]) -> list[str]:
    """Return the types of the open alerts."""
    return [alert["type"] for alert in state["alerts"]]


def test_ups_on_battery_low_forced_and_back(nut: Nut, agents: Callable[..., Running]) -> None:
    """OB, LB, FSD and OL of a UPS become state, advice, alerts, a deadline and one event each."""
    agent = agents(nut_config(nut)).start().wait_ready("")
    state = agent.wait_for(lambda s: s["power"] == "ok")
    assert state["detail"]["power"]["sources"]["ups-a"]["state"] == "ok"
    assert state["advice"]["checkpoint"] is None

    nut.set("ups1", "OB DISCHRG", battery_charge="90", battery_runtime="1200")
    state = agent.wait_for(lambda s: s["power"] == "battery" and s["advice"]["checkpoint"])
    assert state["advice"]["checkpoint"]["every_s"] == pytest.approx(300, abs=5)
    assert state["advice"]["stop"] is None
    assert state["advice"]["uploads"] == "go"
    left_s = state["deadline"]["at_mono_ns"] / 1e9
    assert left_s - time.monotonic() == pytest.approx(1200, abs=10)
    assert state["deadline"]["source"] == "ups-a"
    assert alerts(state) == ["power.battery"]

    nut.set("ups1", "OB DISCHRG LB", battery_charge="8", battery_runtime="120")
    state = agent.wait_for(lambda s: s["advice"]["stop"])
    assert (state["power"], state["advice"]["uploads"]) == ("low", "newest")
    stop_s = state["advice"]["stop"]["deadline_mono_ns"] / 1e9 - time.monotonic()
    assert 60 < stop_s < 95

    nut.set("ups1", "OB DISCHRG FSD", battery_charge="7", battery_runtime="100")
    state = agent.wait_for(lambda s: s["detail"]["power"]["forced_shutdown"])
    assert state["advice"]["stop"]

    nut.set("ups1", "OL CHRG", battery_charge="7", battery_runtime="100")
    state = agent.wait_for(lambda s: s["power"] == "ok" and not s["advice"]["checkpoint"])
    assert state["advice"] == {**state["advice"], "stop": None, "uploads": "go"}
    assert state["deadline"] is None
    told = [one for one in agent.types() if one.startswith("power.")]
    assert told == ["power.mains_lost", "power.low", "power.restored"]

    shown = agent.cli("status").stdout
    assert re.search(r"^ups-a +ups +ok .*\d+ ?(ms|s) ago +on line", shown, re.MULTILINE), shown
    assert "power ok" in shown


def test_a_restart_and_a_lost_upsd_forget_no_battery(
    nut: Nut, agents: Callable[..., Running]
) -> None:
    """An agent that is killed on battery starts on battery; a upsd that dies changes nothing.

    The outage is one event, and the checkpoint keeps its id.
    """
    agent = agents(nut_config(nut)).start().wait_ready("")
    agent.wait_for(lambda s: s["power"] == "ok")
    nut.set("ups1", "OB DISCHRG", battery_runtime="1200")
    asked = agent.wait_for(lambda s: s["advice"]["checkpoint"])["advice"]["checkpoint"]
    nut.kill("upsd")
    agent.wait_for(lambda s: s["detail"]["power"]["sources"]["ups-a"]["stale"])
    assert agent.state()["power"] == "battery"
    time.sleep(0.6)  # the outbox's commit, which is what a crash leaves
    agent.kill()

    agent.start().wait_ready("")
    time.sleep(1.5)
    state = agent.state()
    assert state["power"] == "battery"
    assert state["advice"]["checkpoint"]["id"] == asked["id"]
    assert alerts(state) == ["power.battery"]

    nut.set("ups1", "OL")
    nut.restart_server()
    agent.wait_for(lambda s: s["power"] == "ok" and not s["advice"]["checkpoint"], 30)
    told = [one for one in agent.types() if one.startswith("power.")]
    assert told == ["power.mains_lost", "power.restored"]


def test_a_node_that_starts_on_battery_alarms(nut: Nut, agents: Callable[..., Running]) -> None:
    """First sight of a battery is an outage: event, alert and checkpoint."""
    nut.set("ups1", "OB DISCHRG")
    time.sleep(2.5)
    agent = agents(nut_config(nut)).start().wait_ready("")
    state = agent.wait_for(lambda s: s["power"] == "battery")

    assert alerts(state) == ["power.battery"]
    assert state["advice"]["checkpoint"]
    lost = next(one for one in agent.events() if one["type"] == "power.mains_lost")
    assert lost["data"]["initial"] is True
