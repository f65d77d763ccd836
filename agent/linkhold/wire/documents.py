"""State and events as bytes: JSON in CloudEvents 1.0 structured mode, and back.

Reading never trusts the sender: anything that is no valid document raises
:class:`~linkhold.model.WireError` with the reason, and nothing else.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from linkhold.model import (
    Advice,
    CheckpointRequest,
    Event,
    Identity,
    Moment,
    Network,
    PowerState,
    Severity,
    StopRequest,
    Training,
    Uploads,
    WireError,
)
from linkhold.wire.catalogue import CATALOGUE, COMMON
from linkhold.wire.reading import flaw, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping


SCHEMA = 1
STATE_TYPE = "linkhold.state"
CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
MAX_STATE_BYTES = 1 << 20
"""A state document above this is refused by readers: a node has tens of links, not thousands."""

MAX_INTEGER = 2**63
MAX_EVERY_S = 366 * 86400.0

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def dumps(value: Any) -> bytes:
    """Return ``value`` as compact UTF-8 JSON."""
    return _encode(value).encode("utf-8", "replace")


def rfc3339(wall_s: float) -> str:
    """Return a wall-clock time in UTC with milliseconds, as ``2026-11-29T03:00:00.123Z``."""
    whole_s = math.floor(wall_s)
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole_s))
    return f"{text}.{int((wall_s - whole_s) * 1000):03d}Z"


def from_rfc3339(text: str) -> float:
    """Return the seconds since 1970 of a time with a zone, such as :func:`rfc3339` makes.

    Raises :class:`WireError` for anything else.
    """
    try:
        stamp = datetime.fromisoformat(text.replace("Z", "+00:00"))
        if stamp.tzinfo is None:
            raise WireError(f"a time without a zone: {text!r}")
        return stamp.timestamp()
    except (ValueError, AttributeError, OverflowError) as error:
        raise WireError(f"not a time: {text!r}") from error


def stamp(name: str, moment: Moment) -> dict[str, Any]:
    """Return a moment under ``name``, as people and as programs of this boot read it."""
    shown = rfc3339(moment.wall_s) if moment.mono_ns else None  # 0: it never was
    return {name: shown, f"{name}_mono_ns": moment.mono_ns}


def parse_stamp(document: Mapping[str, Any], name: str) -> Moment:
    """Return what :func:`stamp` was given. Raises KeyError, TypeError and ValueError."""
    shown = document[name]
    return Moment(int(document[f"{name}_mono_ns"]), from_rfc3339(shown) if shown else 0.0)


def source_of(identity: Identity) -> str:
    """Return the CloudEvents ``source`` of a node."""
    return f"linkhold/{identity.site}/{identity.node}"


def event_id(identity: Identity, seq: int) -> str:
    """Return the id by which receivers de-duplicate: ``<boot_id>-<session>-<seq>``."""
    return f"{identity.boot_id}-{identity.session}-{seq}"


def event_document(identity: Identity, event: Event) -> dict[str, Any]:
    """Return ``event`` as a CloudEvent (structured mode, a dict ready for JSON).

    ``severity`` and ``seq`` are extension attributes; ``monotime`` is CLOCK_MONOTONIC in ns.
    """
    return {
        "specversion": "1.0",
        "id": event_id(identity, event.seq),
        "source": source_of(identity),
        "type": event.type,
        "subject": event.subject,
        "time": rfc3339(event.at.wall_s),
        "datacontenttype": "application/json",
        "severity": event.severity.value,
        "seq": event.seq,
        "monotime": event.at.mono_ns,
        "data": dict(event.data),
    }


def check_event(event: Event) -> None:
    """Raise :class:`WireError` unless type and data of ``event`` are in the catalogue."""
    kind = CATALOGUE.get(event.type)
    if kind is None:
        raise WireError(f"{event.type}: no such event type")
    surplus = set(event.data) - set(kind.fields) - set(COMMON)
    if surplus:
        raise WireError(f"{event.type}: data {sorted(surplus)} not in the catalogue")


def wrap_state(identity: Identity, epoch: int, now: Moment, document: bytes) -> bytes:
    """Return the state ``document`` (JSON bytes) as the CloudEvent that is published.

    Each heartbeat has an id of its own: it is news, though the epoch is the same.
    The bytes are put in as they are: the document is encoded once for file, legs and outbox.
    """
    head = dumps(
        {
            "specversion": "1.0",
            "id": f"{identity.boot_id}-{identity.session}-state-{epoch}-{now.mono_ns}",
            "source": source_of(identity),
            "type": STATE_TYPE,
            "time": rfc3339(now.wall_s),
            "datacontenttype": "application/json",
        }
    )
    return head[:-1] + b',"data":' + document + b"}"


@dataclass(frozen=True, slots=True)
class StateView:
    """What a reader of the state acts on. ``document`` is the whole of it, for display.

    ``order`` decides which of two states of one boot is newer; states of different boots
    cannot be compared by it.
    """

    site: str
    node: str
    boot_id: str
    session: str
    epoch: int
    mono_ns: int
    session_mono_ns: int
    network: Network
    power: PowerState
    advice: Advice
    cause: tuple[str, ...]
    document: Mapping[str, Any]

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key within one boot: session start, epoch, then the heartbeat."""
        return (self.session_mono_ns, self.epoch, self.mono_ns)

    def age_s(self, now_mono_ns: int) -> float:
        """Return the seconds since the state was written, by CLOCK_MONOTONIC of the same boot."""
        return (now_mono_ns - self.mono_ns) / 1e9


def parse_state(payload: bytes) -> StateView:
    """Read a state: either the bare document (state file) or its CloudEvent (topic).

    Unknown fields are ignored, so that an older client reads a newer agent. Raises
    :class:`WireError` for anything that is no state of schema 1.
    """
    if len(payload) > MAX_STATE_BYTES:
        raise WireError(f"state of {len(payload)} bytes; at most {MAX_STATE_BYTES}")
    outer = load_json(payload)
    if isinstance(outer, dict) and outer.get("type") == STATE_TYPE:
        outer = outer.get("data")
    if not isinstance(outer, dict) or outer.get("schema") != SCHEMA:
        raise WireError("no linkhold state of schema 1")
    try:
        return _view(outer)
    except (
        KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise WireError(f"state document: {flaw(error)}") from error


def _view(document: dict[str, Any]) -> StateView:
    return StateView(
        site=str(document["site"]),
        node=str(document["node"]),
        boot_id=str(document["boot_id"]),
        session=str(document["session"]),
        epoch=_integer(document["epoch"]),
        mono_ns=_integer(document["mono_ns"]),
        session_mono_ns=_integer(document["session_mono_ns"]),
        network=Network(document["network"]),
        power=PowerState(document["power"]),
        advice=parse_advice(document["advice"]),
        cause=tuple(str(line) for line in document.get("cause", ())),
        document=document,
    )


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an integer, got {value!r}")
    if abs(value) > MAX_INTEGER:
        raise ValueError("an integer of more than 64 bits")
    return value


def parse_advice(value: Mapping[str, Any]) -> Advice:
    """Return the advice of a state document; raises KeyError, TypeError or ValueError."""
    checkpoint, stop = value.get("checkpoint"), value.get("stop")
    return Advice(
        uploads=Uploads(value["uploads"]),
        training=Training(value["training"]),
        holds=tuple(str(name) for name in value.get("holds", ())),
        checkpoint=None if checkpoint is None else _checkpoint(checkpoint),
        stop=None if stop is None else _stop(stop),
    )


def _checkpoint(value: dict[str, Any]) -> CheckpointRequest:
    every_s = value.get("every_s")
    if every_s is not None and not 0 <= every_s <= MAX_EVERY_S:
        raise ValueError(f"every_s {every_s}")
    return CheckpointRequest(
        id=str(value["id"]),
        reason=str(value["reason"]),
        local_only=bool(value.get("local_only", False)),
        every_s=None if every_s is None else max(1.0, float(every_s)),
    )


def _stop(value: dict[str, Any]) -> StopRequest:
    deadline = value.get("deadline_mono_ns")
    return StopRequest(
        id=str(value["id"]),
        reason=str(value["reason"]),
        deadline_mono_ns=None if deadline is None else _integer(deadline),
    )


def advice_document(advice: Advice) -> dict[str, Any]:
    """Return ``advice`` as it stands in the state document."""
    checkpoint, stop = advice.checkpoint, advice.stop
    return {
        "uploads": advice.uploads.value,
        "training": advice.training.value,
        "holds": list(advice.holds),
        "checkpoint": None
        if checkpoint is None
        else {
            "id": checkpoint.id,
            "reason": checkpoint.reason,
            "local_only": checkpoint.local_only,
            "every_s": checkpoint.every_s,
        },
        "stop": None
        if stop is None
        else {"id": stop.id, "reason": stop.reason, "deadline_mono_ns": stop.deadline_mono_ns},
    }


def birth_document(
    identity: Identity, version: str, previous: tuple[str, int] | None, next_seq: int, planned: str
) -> dict[str, Any]:
    """Return the birth: who speaks since when, and where the previous session ended.

    ``previous`` is (session, last committed seq) or None. ``planned`` is empty while the agent
    runs and the reason once it stops on purpose, so that nobody is paged for it.
    """
    return {
        "schema": SCHEMA,
        "node": identity.node,
        "site": identity.site,
        "boot_id": identity.boot_id,
        "session": identity.session,
        "version": version,
        "started": rfc3339(identity.started.wall_s),
        "started_mono_ns": identity.started.mono_ns,
        "previous_session": previous[0] if previous else None,
        "previous_seq": previous[1] if previous else None,
        "next_seq": next_seq,
        "planned_stop": planned or None,
    }


@dataclass(frozen=True, slots=True)
class EventView:
    """An event as a reader sees it; ``document`` is the whole CloudEvent."""

    id: str
    type: str
    subject: str
    severity: Severity
    time: str
    document: Mapping[str, Any]


def parse_event(payload: bytes | str) -> EventView:
    """Read an event of any type (a newer agent may know more types than this reader)."""
    document = load_json(payload)
    try:
        return EventView(
            id=str(document["id"]),
            type=str(document["type"]),
            subject=str(document.get("subject", "")),
            severity=Severity(document.get("severity", "info")),
            time=str(document["time"]),
            document=document,
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise WireError(f"event: {flaw(error)}") from error


def event_line(type_: str, subject: str, data: Mapping[str, Any]) -> str:
    """Return an event as one line for people: type, subject, then its data as key=value.

    Whatever the names and texts are, it is one line, and nothing that a terminal acts on.
    """
    pairs = [
        f"{_shown(key)}={_quoted(value)}"
        for key, value in data.items()
        if value not in (None, "", [])
    ]
    return " ".join([_shown(type_), _shown(subject), *pairs])


def _quoted(value: Any) -> str:
    if isinstance(value, str) and " " not in value:
        return _shown(value)
    text = _encode(value)
    return text if text.isprintable() else json.dumps(value)


def _shown(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)
