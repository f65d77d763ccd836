"""Metrics of the relay itself. Pure; the labels are kinds of messages and brokers, no nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.wire.openmetrics import Family, Kind, Sample, counter, gauge, sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.relay.decide.picture import Picture


def families(
    picture: Picture, counters: Mapping[str, int], *, pending: int, cpu_s: float, version: str
) -> Iterator[Family]:
    """Yield every metric of a relay."""
    yield gauge("linkhold_relay_info", "the relay that wrote this", 1.0, version=version)
    yield gauge("linkhold_relay_nodes", "nodes that were heard of", len(picture.nodes))
    yield gauge("linkhold_relay_nodes_offline", "nodes that are offline", picture.offline())
    yield gauge("linkhold_relay_alerts_firing", "alerts that fire", len(picture.firing))
    yield gauge("linkhold_relay_alerts_waiting", "alerts that the sink has not taken", pending)
    brokers = picture.sky().brokers
    up = tuple(sample(float(since is not None), broker=name) for name, since in brokers.items())
    yield Family("linkhold_relay_broker_connected", Kind.GAUGE, "1 while connected", up)
    missing = Sample(float(picture.events_missing()))
    yield Family(
        "linkhold_relay_events_missing", Kind.COUNTER, "events that could not be had", (missing,)
    )
    yield Family(
        "linkhold_relay_cpu_seconds", Kind.COUNTER, "processor time used", (Sample(cpu_s),)
    )
    counts = {name: float(value) for name, value in counters.items()}
    yield counter("linkhold_relay_events", "what the relay counts", counts, "kind")
