"""Incidents of the kernel's log as JSON, and read back after a restart."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from linkhold.model.incidents import Incident, KernelLog
from linkhold.model.kernel_log import LineClass, LineSeverity, Position

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = (
    "subject",
    "cause",
    "interface",
    "address",
    "driver",
    "opened_ns",
    "last_fault_ns",
    "lines",
    "recovered_ns",
)


def kernel_log_document(log: KernelLog) -> dict[str, Any]:
    """Return the part of the state document about the kernel's log."""
    return {
        "incidents": [incident_document(one) for one in log.incidents],
        "lost": log.lost,
        "problem": log.problem,
        "position": None if log.position is None else asdict(log.position),
    }


def incident_document(one: Incident) -> dict[str, Any]:
    """Return an incident as JSON; times are CLOCK_MONOTONIC in nanoseconds."""
    return {
        **{name: getattr(one, name) for name in _PLAIN},
        "class": one.cls.value,
        "severity": one.severity.value,
        "whys": list(one.whys),
    }


def parse_kernel_log(value: Mapping[str, Any] | None) -> KernelLog:
    """Return what :func:`kernel_log_document` was made of; nothing from agents before it.

    Packet counters are not kept: a restarted agent looks at traffic anew. Raises KeyError,
    TypeError or ValueError for what is damaged.
    """
    if not value:
        return KernelLog()
    incidents = tuple(_parse(one) for one in value["incidents"])
    at = value.get("position")  # not in states of agents before it
    position = Position(str(at["boot_id"]), int(at["sequence"]), str(at["cursor"])) if at else None
    return KernelLog(incidents, problem=str(value["problem"]), position=position)


def _parse(one: Mapping[str, Any]) -> Incident:
    recovered = one["recovered_ns"]
    return Incident(
        subject=str(one["subject"]),
        cls=LineClass(one["class"]),
        severity=LineSeverity(one["severity"]),
        cause=str(one["cause"]),
        opened_ns=int(one["opened_ns"]),
        last_fault_ns=int(one["last_fault_ns"]),
        interface=str(one["interface"]),
        address=str(one["address"]),
        driver=str(one["driver"]),
        lines=int(one["lines"]),
        whys=tuple(str(why) for why in one["whys"]),
        recovered_ns=None if recovered is None else int(recovered),
    )
