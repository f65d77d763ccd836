"""Prometheus' own parsers, to read what our metrics become."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


def lenient(text: str) -> list[Metric]:
    """Read Prometheus' text format 0.0.4, as node_exporter does."""
    return list(text_string_to_metric_families(text))


def strict(text: str) -> list[Metric]:
    """Read OpenMetrics 1.0; raises ValueError for whatever is against the standard."""
    return list(openmetrics.text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
