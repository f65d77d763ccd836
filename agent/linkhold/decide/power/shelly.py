"""Shelly: Gen1 (shellies/<id>/...) and Gen2 and later (RPC notifications and status topics)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.json_values import number
from linkhold.decide.power.meaning import Meaning, Watched, What, meaning, worst
from linkhold.decide.power.words import (
    contact,
    ignored,
    is_broken,
    mains,
    mains_volts,
    measured,
    nothing,
    outlet,
    parsed,
    status_of_sensor,
    truth,
    word,
)
from linkhold.model import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIPPED = frozenset({"overpower", "overload"})
NOTIFICATIONS = frozenset({"NotifyStatus", "NotifyFullStatus"})
PHASES = ("voltage", "a_voltage", "b_voltage", "c_voltage")
GEN1_CHANNEL_LEVELS = 4


def gen1(topic: list[str], text: str, _watched: Watched) -> Meaning:
    """Return what a message of a Shelly of the first generation means."""
    if topic[-1] == "online":
        return status_of_sensor(text, "the device's will")
    if len(topic) < GEN1_CHANNEL_LEVELS or topic[2] not in {"relay", "input"}:
        return ignored(f"{topic[-1]} is no topic of power")
    if len(topic) > GEN1_CHANNEL_LEVELS:
        return nothing(f"{topic[-1]} is a figure, zero means idle")
    if topic[2] == "input":
        return contact(text, f"input {topic[3]}", topic[3])
    return _relay(topic[3], text)


def _relay(channel: str, text: str) -> Meaning:
    if word(text) in TRIPPED:
        return _tripped(channel, word(text), None)
    on = truth(text)
    if on is None:
        return ignored("the relay is neither on nor off")
    return outlet(on, f"relay {channel}", channel=channel)


def gen2(topic: list[str], text: str, watched: Watched) -> Meaning:
    """Return what a message of a later Shelly means."""
    if topic[-1] == "online":
        return status_of_sensor(text, "the device's will")
    value = parsed(text)
    if is_broken(text, value) or not isinstance(value, dict):
        return ignored("no whole JSON object where one is due")
    if len(topic) > 1 and topic[-2] == "status":
        return _components({topic[-1]: value}, watched)
    method = value.get("method")
    if method is not None and str(method) not in NOTIFICATIONS:
        return ignored(f"{str(method)[:40]} is an event or a command, no state")
    inner = value.get("params", value.get("result", value))
    return _components(inner, watched) if isinstance(inner, dict) else ignored("no status in it")


def _components(status: dict[str, Any], watched: Watched) -> Meaning:
    """Judge every component by itself: a broken one must not hide a good one."""
    found = list(_told(status))
    return worst(found, watched) or nothing("nothing of ours in it: what is not told is unchanged")


def _told(status: dict[str, Any]) -> Iterator[Meaning]:
    for key, value in status.items():
        kind, _, channel = key.partition(":")
        if not isinstance(value, dict):
            continue
        if kind == "switch" and isinstance(value.get("output"), bool):
            yield _switch(channel, value)
        elif kind == "input" and "state" in value:
            yield contact(value["state"], f"input {channel}", channel)
        elif kind in {"pm1", "em1", "em"} and (found := _meter(value)):
            yield found
        elif kind == "devicepower" and isinstance(value.get("external"), dict):
            said = value["external"].get("present")
            yield mains(truth(said), "the device's own supply", said)


def _switch(channel: str, value: dict[str, Any]) -> Meaning:
    volts, errors = mains_volts(value.get("voltage")), value.get("errors")
    reason = ", ".join(str(error)[:40] for error in errors) if isinstance(errors, list) else ""
    if reason and not value["output"]:
        return _tripped(channel, reason, volts)
    if reason:
        why = f"switch {channel}: {reason}"
        found = meaning(What.DEGRADED, why, reason=reason, volts=volts)
        return replace(found, aspect="outlet", channel=channel)
    return outlet(value["output"], f"switch {channel}", channel=channel, volts=volts)


def _meter(value: dict[str, Any]) -> Meaning | None:
    phases = [value[key] for key in PHASES if key in value]
    volts = mains_volts(phases)
    if volts is None:
        return None
    if any(mains_volts(phase) is None and number(phase) is not None for phase in phases):
        return meaning(What.DEGRADED, "a phase has no voltage", reason="phase lost", volts=volts)
    return measured(volts) or meaning(What.OK, f"the meter has {volts:g} V", volts=volts)


def _tripped(channel: str, reason: str, volts: float | None) -> Meaning:
    why = f"outlet {channel} tripped ({reason}): it will not come back by itself"
    return meaning(
        What.OUTLET_OFF,
        why,
        Severity.CRITICAL,
        reason=reason,
        channel=channel,
        volts=volts,
        aspect="outlet",
    )
