"""A node's state document as metrics. Pure; every label comes from a bounded set of the host's.

Units stand in the names (seconds, ratio); a state is one gauge for each word it may be, of which
one is 1, so that an alert rule needs no knowledge of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.wire.openmetrics import Family, Kind, Sample, counter, gauge, sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_LINKS = 64
NETWORK = ("ok", "degraded", "down", "unknown")
POWER = ("ok", "battery", "low", "unknown")
UPLOADS = ("go", "newest", "hold")
TRAINING = ("go", "hold")
SEVERITIES = ("info", "warning", "critical")
LEGS = ("up", "down", "connecting", "starting", "off")
OUTBOX = ("ok", "starting", "volatile", "stalled", "damaged")


def families(document: Mapping[str, Any], version: str, wall_s: float) -> Iterator[Family]:
    """Yield the metrics of a state document as it was written at ``wall_s``."""
    yield gauge("linkhold_agent_info", "the agent that wrote this", 1.0, version=version)
    yield gauge("linkhold_state_timestamp_seconds", "when this was written", wall_s)
    yield gauge("linkhold_state_epoch", "changes since the agent started", document["epoch"])
    yield _words("linkhold_network_state", "what the ways out carry", document["network"], NETWORK)
    yield _words("linkhold_power_state", "where power comes from", document["power"], POWER)
    advice = document["advice"]
    yield _words("linkhold_advice_uploads", "uploads may go", advice["uploads"], UPLOADS)
    yield _words("linkhold_advice_training", "training may go", advice["training"], TRAINING)
    stop = 0.0 if advice["stop"] is None else 1.0
    yield gauge("linkhold_advice_stop", "1 while training is asked to stop", stop)
    checkpoint = 0.0 if advice["checkpoint"] is None else 1.0
    yield gauge("linkhold_advice_checkpoint", "1 while a checkpoint is asked for", checkpoint)
    yield _alerts(document)
    yield gauge("linkhold_operator_holds", "holds of operators", len(document.get("holds") or ()))
    yield gauge("linkhold_notices", "notices that stand", len(document.get("notices") or ()))
    maintenance = 1.0 if document.get("maintenance") else 0.0
    yield gauge("linkhold_maintenance", "1 while planned work is announced", maintenance)
    yield from _network(document["detail"])
    yield from _power(document["detail"])
    yield from _agent(document["detail"]["agent"])


def _words(name: str, help_: str, value: str, words: tuple[str, ...]) -> Family:
    samples = tuple(sample(float(word == value), state=word) for word in words)
    return Family(name, Kind.GAUGE, help_, samples)


def _alerts(document: Mapping[str, Any]) -> Family:
    found = [str(alert["severity"]) for alert in document.get("alerts") or ()]
    samples = tuple(sample(found.count(word), severity=word) for word in SEVERITIES)
    return Family("linkhold_alerts", Kind.GAUGE, "alerts that are open", samples)


def _network(detail: Mapping[str, Any]) -> Iterator[Family]:
    links = list((detail.get("links") or {}).items())[:MOST_LINKS]
    for name, field, help_ in (
        ("linkhold_link_carrier", "carrier", "1 while a link has carrier"),
        ("linkhold_link_flapping", "flapping", "1 while a link is lost too often"),
    ):
        yield Family(name, Kind.GAUGE, help_, tuple(_flags(links, field, "device")))
    for name, field, help_ in (
        ("linkhold_link_carrier_lost", "carrier_downs", "how often the kernel saw carrier go"),
        ("linkhold_link_carrier_found", "carrier_ups", "how often the kernel saw carrier come"),
    ):
        yield Family(name, Kind.COUNTER, help_, tuple(_numbers(links, field, "device")))
    bonds = list((detail.get("bonds") or {}).items())[:MOST_LINKS]
    yield Family(
        "linkhold_bond_redundant",
        Kind.GAUGE,
        "1 while a bond can lose a member",
        tuple(_flags(bonds, "redundant", "device")),
    )
    for name, wanted, help_ in (
        ("linkhold_bond_members", False, "members of a bond"),
        ("linkhold_bond_members_good", True, "members of a bond that can carry"),
    ):
        counts = tuple(
            sample(sum(1 for v in (b.get("members") or {}).values() if v["good"] or not wanted),
                   device=n)
            for n, b in bonds
        )  # fmt: skip
        yield Family(name, Kind.GAUGE, help_, counts)
    ways = list((detail.get("paths") or {}).items())[:MOST_LINKS]
    carrying = sum(1 for _, way in ways if way.get("carries"))
    yield gauge("linkhold_ways_out", "ways out that are known", len(ways))
    yield gauge("linkhold_ways_out_carrying", "ways out that carry", carrying)


def _power(detail: Mapping[str, Any]) -> Iterator[Family]:
    power = detail.get("power") or {}
    left = power.get("runtime_s")
    known = left if isinstance(left, (int, float)) else None
    yield gauge("linkhold_battery_runtime_seconds", "what the battery has left", known)


def _agent(agent: Mapping[str, Any]) -> Iterator[Family]:
    legs = []
    for leg in ("a", "b"):
        value = str(agent.get(f"leg_{leg}", "")).partition(":")[0]
        legs += [sample(float(word == value), leg=leg, state=word) for word in LEGS]
    yield Family("linkhold_leg_state", Kind.GAUGE, "connections to brokers", tuple(legs))
    outbox = str(agent.get("outbox", "")).partition(":")[0]
    yield _words("linkhold_outbox_state", "the history on disk", outbox, OUTBOX)
    yield gauge("linkhold_outbox_pending", "events not yet delivered", agent.get("pending"))
    yield gauge("linkhold_outbox_parked", "events that the broker refused", agent.get("parked"))
    unavailable = len(agent.get("unavailable") or ())
    yield gauge("linkhold_parts_unavailable", "parts that cannot work here", unavailable)
    counters = {
        str(name): float(value)
        for name, value in (agent.get("counters") or {}).items()
        if isinstance(value, (int, float)) and value >= 0
    }
    yield counter("linkhold_agent_events", "what the parts of the agent count", counters, "kind")


def _flags(entries: list[tuple[str, Any]], field: str, label: str) -> Iterator[Sample]:
    for name, value in entries:
        if isinstance(value.get(field), bool):
            yield sample(float(value[field]), **{label: name})


def _numbers(entries: list[tuple[str, Any]], field: str, label: str) -> Iterator[Sample]:
    for name, value in entries:
        number = value.get(field)
        if isinstance(number, int) and not isinstance(number, bool):
            yield sample(number, **{label: name})
