"""Metrics as text: Prometheus' format 0.0.4 and OpenMetrics 1.0. Pure.

node_exporter's textfile collector reads the former only; both have the same names. A counter's
name ends in ``_total`` in its samples; OpenMetrics names the family without it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_SAMPLES = 512
"""Of one family: what a host has many of (links, probes) must not fill a Prometheus."""
PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Kind(str, Enum):
    """What a metric counts."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value with its labels."""

    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """A metric: ``name`` without ``_total``, what it means, and its samples.

    Raises ValueError for a name that is none, so that a test of every family finds it.
    """

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.endswith("_total"):
            raise ValueError(f"{self.name!r} is no name of a metric")


def gauge(name: str, help_: str, value: float | None, **labels: str) -> Family:
    """Return a gauge with one sample, or with none when the value is not known."""
    samples = () if value is None else (sample(value, **labels),)
    return Family(name, Kind.GAUGE, help_, samples)


def counter(name: str, help_: str, values: Mapping[str, float], label: str) -> Family:
    """Return a counter with one sample for each name of ``values``."""
    samples = tuple(sample(value, **{label: name_}) for name_, value in values.items())
    return Family(name, Kind.COUNTER, help_, samples)


def sample(value: float, **labels: str) -> Sample:
    """Return a sample; labels are sorted, so that equal ones are equal text."""
    return Sample(float(value), tuple(sorted((name, str(text)) for name, text in labels.items())))


def render(families: Iterable[Family], *, openmetrics: bool = False) -> bytes:
    """Return the text of all families; those without samples are left out."""
    lines = [line for family in families for line in _lines(family, openmetrics=openmetrics)]
    if openmetrics:
        lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _lines(family: Family, *, openmetrics: bool) -> Iterator[str]:
    if not family.samples:
        return
    total = "_total" if family.kind is Kind.COUNTER else ""
    name = family.name if openmetrics else family.name + total
    yield f"# HELP {name} {_escaped(family.help, quotes=openmetrics)}"
    yield f"# TYPE {name} {family.kind.value}"
    for one in family.samples[:MOST_SAMPLES]:
        labels = ",".join(f'{key}="{_escaped(text, quotes=True)}"' for key, text in one.labels)
        braced = f"{{{labels}}}" if labels else ""
        yield f"{family.name}{total}{braced} {_number(one.value)}"


def _escaped(text: str, *, quotes: bool) -> str:
    safe = text.replace("\\", "\\\\").replace("\n", "\\n")
    return safe.replace('"', '\\"') if quotes else safe


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1 << 53 else repr(value)
