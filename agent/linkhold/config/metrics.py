"""Where the metrics of an agent or a relay go."""

from __future__ import annotations

from dataclasses import dataclass

from linkhold.config.option import option


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Metrics as Prometheus reads them; without a key none are made."""

    textfile: str = option(
        "",
        "file for node_exporter's textfile collector, written at each heartbeat",
        prom=True,
        example="/var/lib/prometheus/node-exporter/linkhold.prom",
    )
    listen: str = option(
        "",
        "address of an endpoint for scrapes, /metrics; other hosts may read it only where it is "
        "no loopback address",
        endpoint=True,
        example="127.0.0.1:9782",
    )
