"""From a source's word to the state file: sensors on MQTT, the kernel's uevents, a UPS by NUT."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING

from bench.inotify import Replaced
from bench.power_scene import Scene, nut, sensors
from bench.rig import Rig
from bench.rows import Row, percentile, row
from support.broker import Collector
from support.supplies import write

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.rig import Agent

FLIPS, QUICK_FLIPS = 40, 6
DEBOUNCE_S, POLL_S = 1.0, 0.5
MOST_MS = 50.0
PATIENCE_S = 10.0
CALM = "notices: {cloud: never, logind: false}\npolicy: {mains_back_s: 0}\n"


def rows(*, quick: bool = False) -> list[Row]:
    """Measure each kind of source with an agent of its own."""
    flips = QUICK_FLIPS if quick else FLIPS
    with Rig() as rig:
        rig.start_fleet()
        with Scene(rig) as scene:
            mqtt = _mqtt(rig, flips // 2)
            uevents = _uevents(rig, flips)
            polled = _polled(rig, scene, flips)
    return [
        *_rows("MQTT, after its debounce of 1 s", [ms - DEBOUNCE_S * 1e3 for ms in mqtt]),
        *_rows("uevent", uevents),
        *_rows(f"NUT, over one poll of {POLL_S:g} s", [ms - POLL_S * 1e3 for ms in polled]),
    ]


def _rows(name: str, found_ms: list[float]) -> list[Row]:
    return [
        row(f"{name}: median to the state file", "ms", median(found_ms)),
        row(f"{name}: p95", "ms", percentile(found_ms, 0.95), most=MOST_MS),
        row(f"{name}: longest", "ms", max(found_ms)),
    ]


def _mqtt(rig: Rig, flips: int) -> list[float]:
    assert rig.fleet is not None
    agent = rig.start_agent(more=f"{CALM}power: {{kernel: false, {sensors()}}}\n")
    with rig.namespace.enter():
        esp = Collector(rig.fleet.port, "nothing")
    try:
        return _flip(agent, flips, lambda dark: esp.publish("m/1", b"0" if dark else b"1"))
    finally:
        esp.close()
        agent.stop()


def _uevents(rig: Rig, flips: int) -> list[float]:
    folder, fifo = rig.disk / "supplies", rig.disk / "poke"
    folder.mkdir()
    os.mkfifo(fifo)
    write(folder, "AC", type="Mains", online="1")
    write(folder, "BAT0", type="Battery", status="Full", capacity="90")
    names = {"LINKHOLD_BENCH_SUPPLIES": str(folder), "LINKHOLD_BENCH_POKE": str(fifo)}
    agent = rig.start_agent(more=CALM, module="bench.poked_agent", environment=names)
    poke = os.open(fifo, os.O_RDWR)

    def flip(dark: bool) -> None:  # noqa: FBT001 -- one of two states
        write(folder, "AC", online="0" if dark else "1")
        os.write(poke, b"!")

    try:
        return _flip(agent, flips, flip)
    finally:
        os.close(poke)
        agent.stop()


def _polled(rig: Rig, scene: Scene, flips: int) -> list[float]:
    more = f"{CALM}power: {{kernel: false, poll: {POLL_S:g}s, {nut(scene.upsd)}}}\n"
    agent = rig.start_agent(more=more)

    def flip(dark: bool) -> None:  # noqa: FBT001 -- one of two states
        scene.upsd.status = "OB DISCHRG" if dark else "OL"

    try:
        return _flip(agent, flips, flip)
    finally:
        agent.stop()


def _flip(agent: Agent, flips: int, say: Callable[[bool], None]) -> list[float]:
    """Say dark and bright by turns; return the milliseconds until the state file shows each."""
    say(False)
    agent.wait_for(lambda state: state["power"] == "ok", "mains")
    watch = Replaced(agent.state_file)
    found_ms = []
    try:
        for number in range(flips):
            dark = not number % 2
            time.sleep(0.1 + 0.37 * (number % 5) / 5)  # out of step with every timer
            wanted = "battery" if dark else "ok"
            began_s = time.monotonic()
            say(dark)
            while agent.state()["power"] != wanted:
                assert watch.wait_until(began_s + PATIENCE_S), f"no {wanted} in the state"
            found_ms.append((time.monotonic() - began_s) * 1e3)
    finally:
        watch.close()
    return found_ms
