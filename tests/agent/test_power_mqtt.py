"""Whole agents that listen to sensors of mains through a real mosquitto."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

from support.broker import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.broker import Collector
    from support.running import Running, TiedBroker

QUIET = "notices: {cloud: never, logind: false}\nalerts: {fire_after_s: 0, close_after_s: 0}\n"
STATE, STATUS = "site/rack1/mains/state", "site/rack1/mains/status"


def config(fleet: int, other: int, *, needed: int = 2) -> str:
    """Return a configuration with two ESP32s on the fleet's broker and a plug on another one."""
    esp = "topics: [site/{0}/mains/state], status_topic: site/{0}/mains/status, max_age: 90s"
    plug = f"topics: ['+/plug/#'], dialect: tasmota, broker: {{host: 127.0.0.1, port: {other}}}"
    return (
        f"{QUIET}mqtt: {{local: false, connect_jitter_s: 0, fleet: [{{host: 127.0.0.1, "
        f"port: {fleet}}}]}}\n"
        f"policy: {{mains_back_s: 1}}\n"
        f"power:\n  sensors_needed: {needed}\n  mqtt:\n"
        f"  - {{name: rack1, {esp.format('rack1')}}}\n"
        f"  - {{name: rack2, {esp.format('rack2')}}}\n"
        f"  - {{name: plug, {plug}}}\n"
    )


def sources(state: dict[str, Any]) -> dict[str, str]:
    """Return what each source says."""
    return {name: one["state"] for name, one in state["detail"]["power"]["sources"].items()}


def test_esp32s_on_the_fleets_broker(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """One dark sensor asks for a checkpoint, two for no more than that; a bounce for nothing.

    What was retained is a state, a will makes a sensor unknown and no outage, and a command that
    is retained is told.
    """
    fleet, other = fleets().start(), fleets().start()
    esp, plug = collect(fleet), collect(other)
    for rack in ("rack1", "rack2"):
        esp.publish(f"site/{rack}/mains/status", b"online", retain=True)
        esp.publish(f"site/{rack}/mains/state", b"1", retain=True)
    plug.publish("cmnd/plug/POWER", b"OFF", retain=True)
    agent = agents(config(fleet.port, other.port)).start().wait_ready("")
    state = agent.wait_for(lambda s: sources(s).get("rack2") == "ok")
    wait_until(lambda: agent.state()["power"] == "ok")

    plug.publish("tele/plug/STATE", b'{"POWER":"ON"}')
    state = agent.wait_for(lambda s: sources(s)["plug"] == "ok")
    said = state["detail"]["power"]["sources"]["plug"]["degraded"]
    assert "a command is retained on cmnd/plug/POWER" in said[0]

    esp.publish(STATE, b"0")
    time.sleep(0.4)
    esp.publish(STATE, b"1")
    time.sleep(1.2)
    assert agent.state()["power"] == "ok"

    began_s = time.monotonic()
    esp.publish(STATE, b"0", retain=True)
    state = agent.wait_for(lambda s: s["power"] == "battery")
    assert time.monotonic() - began_s > 0.95
    assert state["advice"]["checkpoint"]
    assert state["advice"]["stop"] is None
    assert state["detail"]["power"]["confirmed"] is False

    esp.publish("site/rack2/mains/state", b"0", retain=True)
    state = agent.wait_for(lambda s: s["detail"]["power"]["confirmed"])
    assert state["advice"]["stop"] is None

    for rack in ("rack1", "rack2"):
        esp.publish(f"site/{rack}/mains/state", b"1", retain=True)
    agent.wait_for(lambda s: s["power"] == "ok" and not s["advice"]["checkpoint"])
    esp.publish(STATUS, b"offline", retain=True)
    state = agent.wait_for(lambda s: sources(s)["rack1"] == "unknown")
    assert state["power"] == "ok"


def test_a_network_fault_is_no_outage_and_ends_none(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """A broker that is gone makes sensors unknown; on battery the node stays on battery.

    The other broker, which hangs, delays neither.
    """
    fleet, other = fleets().start(), fleets().start()
    esp = collect(fleet)
    for rack in ("rack1", "rack2"):
        esp.publish(f"site/{rack}/mains/state", b"1", retain=True)
    other.signal(signal.SIGSTOP)
    agent = agents(config(fleet.port, other.port)).start().wait_ready("")
    agent.wait_for(lambda s: s["power"] == "ok")

    fleet.kill()
    state = agent.wait_for(lambda s: s["power"] == "unknown")
    assert "its broker is not reached" in state["detail"]["power"]["sources"]["rack1"]["detail"]
    assert state["advice"]["checkpoint"] is None

    fleet.start()
    again = collect(fleet)
    for rack in ("rack1", "rack2"):
        again.publish(f"site/{rack}/mains/state", b"0")
        again.publish(f"site/{rack}/mains/state", b"0", retain=True)
    agent.wait_for(lambda s: s["power"] == "battery", 30)
    fleet.kill()
    agent.wait_for(lambda s: s["detail"]["power"]["sources"]["rack1"]["stale"])
    assert agent.state()["power"] == "battery"
    assert agent.state()["advice"]["checkpoint"]
    other.signal(signal.SIGCONT)
