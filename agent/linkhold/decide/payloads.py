"""What linkhold makes of one recorded payload: for ``linkhold explain payload``, for people.

A row has ``kind`` (a dialect of power sensors or a cloud), ``topic_or_url``, ``body`` and, where
it matters, ``status``, ``response_headers``, ``retain``, ``notifytype``, ``previous_body``,
``this_vm``, ``charge`` and ``runtime_s``, and ``body_is`` for bytes that are no text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from linkhold.decide.json_values import number
from linkhold.decide.notices import VENDORS, Announced, Answer, Judged, judge
from linkhold.decide.notices.dates import rfc3339
from linkhold.decide.notices.machine import STARTED
from linkhold.decide.notices.values import Known
from linkhold.decide.power import announcements, messages, tokens
from linkhold.decide.power.meaning import Meaning, What, meaning, retained
from linkhold.model import LinkholdError, Severity
from linkhold.model.power_sources import Dialect, SensorMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

CLOUD_KINDS = frozenset({*VENDORS, "odd"})
GENERIC_KINDS = frozenset({"mqtt-trap", "mqtt", "generic"})
KINDS = tuple(sorted({d.value for d in Dialect} | CLOUD_KINDS | GENERIC_KINDS))
CRITICAL_ACTIONS = frozenset({"terminate", "preempt", "stop", "hibernate", "redeploy"})
FULL_PERCENT = 50.0
"""A UPS that claims low battery above it contradicts itself (R46)."""

_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")


def explain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return event, severity and why of a row, with its id and what else it tells.

    Raises LinkholdError for a row that cannot be read: no object, or a kind that is not known.
    """
    kind = row.get("kind")
    if not isinstance(kind, str):
        raise LinkholdError(f"kind: expected one of {', '.join(KINDS)}")
    if kind in CLOUD_KINDS:
        found = _explain_notice(kind, row)
    elif kind in KINDS:
        found = _explain_power(kind, row)
    else:
        raise LinkholdError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    return {"id": row.get("id"), **found}


def _explain_power(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    found = _meaning(kind, row)
    told: dict[str, Any] = {
        "event": found.what.value,
        "severity": found.severity.value,
        "why": found.why,
    }
    if found.reason:
        told["reason"] = found.reason
    if found.channel:
        plain = re.fullmatch("[0-9]{1,9}", found.channel)
        told["channel"] = int(found.channel) if plain else found.channel
    if found.volts is not None:
        told["voltage"] = found.volts
    return told


def _meaning(kind: str, row: Mapping[str, Any]) -> Meaning:
    body, keep = _bytes(row), row.get("retain") is True
    if kind == "nut-notify":
        return announcements.upsmon(_text(row, "body"), _text(row, "notifytype"))
    if kind == "nut-status" and row.get("previous_body"):
        found = tokens.nut_status(_text(row, "body"), _text(row, "previous_body"))
        found = _contradicted(_after(found, row), row)
        return retained(found) if keep else found
    dialect = Dialect.GENERIC if kind in GENERIC_KINDS else Dialect(kind)
    found = messages.judge(dialect, SensorMessage(_text(row, "topic_or_url"), body, keep))
    return _contradicted(found, row)


def _after(found: Meaning, row: Mapping[str, Any]) -> Meaning:
    """Return what a status means after the one before: being on line ends an outage."""
    before = tokens.nut_status(_text(row, "previous_body")).what
    if found.what is not What.OK or before not in {What.LOST, What.LOW}:
        return found
    return meaning(What.RESTORED, f"{found.why} again, after an outage", tokens=found.tokens)


def _contradicted(found: Meaning, row: Mapping[str, Any]) -> Meaning:
    """Add what a UPS's own charge says against its claim of low battery."""
    keys = ("charge", "battery.charge", "battery_charge")
    charge = next((number(row[key]) for key in keys if key in row), None)
    if found.what is not What.LOW or charge is None or charge < FULL_PERCENT:
        return found
    why = f"UPS claims LB at {charge:g} %: what is left is counted by its runtime"
    return Meaning(found.what, why, found.severity, tokens=found.tokens)


def _text(row: Mapping[str, Any], key: str) -> str:
    """Return a field as text; a value that is written without quotes is what JSON has for it."""
    value = row.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def _bytes(row: Mapping[str, Any]) -> bytes:
    r"""Return the payload; ``body_is`` says when it is written with \\x escapes."""
    raw = _text(row, "body").encode(errors="surrogatepass")
    if "hex" not in _text(row, "body_is"):
        return raw
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw)


def _explain_notice(kind: str, row: Mapping[str, Any]) -> dict[str, Any]:
    headers, status = row.get("response_headers"), row.get("status")
    answer = Answer(
        _text(row, "topic_or_url"),
        int(status) if status is not None and str(status).lstrip("-").isdecimal() else None,
        _text(row, "body"),
        headers if isinstance(headers, dict) else None,
        _text(row, "this_vm"),
    )
    judged = judge("" if kind == "odd" else kind, answer)
    if judged.known is Known.UNKNOWN:
        severity = Severity.WARNING.value
        why = {"why": judged.why, "keep_previous_state": True}
        return {"event": "unknown", "severity": severity, **why}
    if not judged.announced:
        event = "maintenance_cleared" if judged.cleared else "none"
        return {"event": event, "severity": Severity.INFO.value, "why": judged.why}
    return _told(judged, str(kind))


def _told(judged: Judged, kind: str) -> dict[str, Any]:
    """Return what is announced; of several the worst, with the earliest of all."""
    worst = max(judged.announced, key=_severity)
    told: dict[str, Any] = {
        "event": _event(worst),
        "severity": Severity.CRITICAL.value if _severity(worst) else Severity.WARNING.value,
        "why": judged.why,
        "action": worst.action,
    }
    times = [one.at_s for one in judged.announced if one.at_s is not None]
    if len(judged.announced) > 1:
        told["count"] = len(judged.announced)
        told |= {"earliest": rfc3339(min(times))} if times else {}
    if worst.at_s is not None:
        told[_name_of_time(worst, kind)] = rfc3339(worst.at_s)
    if worst.duration_s is not None:
        told["duration_s"] = int(worst.duration_s)
    if worst.min_notice_s is not None:
        left_s = 0 if worst.status == STARTED else int(worst.min_notice_s)
        told["seconds_left" if worst.now else "min_notice_s"] = left_s
    return told


def _event(announced: Announced) -> str:
    names = {"spot": "spot_interruption", "rebalance": "rebalance_recommendation"}
    return names.get(announced.kind, "maintenance_scheduled")


def _severity(announced: Announced) -> int:
    """Return 1 for what ends the machine, 0 for what pauses it or is days away."""
    return int(announced.kind == "spot" or announced.action in CRITICAL_ACTIONS)


def _name_of_time(announced: Announced, kind: str) -> str:
    if announced.kind == "rebalance":
        return "notice_time"
    return "deadline" if announced.kind == "spot" and kind != "azure" else "not_before"
