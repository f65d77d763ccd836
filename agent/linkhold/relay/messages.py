"""Messages of the fleet's topics, read strictly: what is no message of a node is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.model import WireError
from linkhold.relay.decide.values import (
    Birth,
    Cleared,
    Happened,
    Heard,
    NodeAlert,
    Report,
    Status,
)
from linkhold.wire import ROOT, from_rfc3339, is_topic_safe, load_json, parse_event, parse_state
from linkhold.wire.maintenance import MOST_S
from linkhold.wire.reading import flaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from linkhold.mqtt import Received
    from linkhold.relay.decide.values import Key
    from linkhold.wire import StateView

MOST_ALERTS = 64
MOST_LINKS = 512
MOST_BONDS, MOST_MEMBERS = 32, 16
"""The bonds that are kept, and the members of one of them that carry nothing."""
MOST_NAME = 64
"""Characters of a name or an id; interfaces have 15 (IFNAMSIZ of the kernel)."""
MOST_EVENT_BYTES = 1 << 18
MOST_BIRTH_BYTES = 1 << 14
SEVERITIES = frozenset({"info", "warning", "critical"})
"""What routes and receivers are made for; a word of its own would be paged by no route."""
EVENT_LEVELS = 6
"""Levels of an event's topic; all others have one less."""
TOPICS = ("status", "birth", "state", "event/+")
"""What the relay subscribes to below each node."""


def subscriptions() -> tuple[str, ...]:
    """Return the topic filters of the whole fleet."""
    return tuple(f"{ROOT}/+/+/{topic}" for topic in TOPICS)


def read(message: Received, broker: str) -> Heard | None:
    """Return what a message says; None for a topic other than status that somebody emptied.

    Raises :class:`WireError` for whatever else is no message of a node.
    """
    parts = message.topic.split("/")
    prefix = ROOT.split("/")
    if (
        parts[:2] != prefix
        or len(parts) not in {EVENT_LEVELS - 1, EVENT_LEVELS}
        or not all(map(is_topic_safe, parts[2:4]))
    ):
        raise WireError(f"{message.topic[:100]!r}: no topic of a node")
    key, kind = (parts[2], parts[3]), parts[4]
    reader = _READERS.get(kind)
    if reader is None or (kind == "event") is not (len(parts) == EVENT_LEVELS):
        raise WireError(f"{message.topic[:100]!r}: no topic of a node")
    if not message.payload and kind != "event":
        body = Cleared()
        return Heard(broker, key, message.retained, body) if kind == "status" else None
    try:
        return Heard(broker, key, message.retained, reader(message.payload, key))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WireError(f"{kind} of {key[1]}: {flaw(error)}") from error


def _status(payload: bytes, _key: Key) -> Status:
    if payload not in {b"online", b"offline"}:
        raise WireError(f"status {payload[:20]!r}; expected online or offline")
    return Status(payload == b"online")


def _birth(payload: bytes, key: Key) -> Birth:
    if len(payload) > MOST_BIRTH_BYTES:
        raise WireError(f"birth of {len(payload)} bytes; at most {MOST_BIRTH_BYTES}")
    document = load_json(payload)
    if (document["site"], document["node"]) != key:
        raise WireError("birth of another node than its topic's")
    return Birth(
        session=_name(document["session"]),
        started_s=from_rfc3339(document["started"]),
        previous_session=_name(document.get("previous_session") or ""),
        previous_seq=int(document.get("previous_seq") or 0),
        planned=str(document.get("planned_stop") or "")[:200],
    )


def _name(value: Any) -> str:
    text = str(value)
    if len(text) > 64:  # noqa: PLR2004 -- a session is 12 hexadecimal digits
        raise WireError("a session's name of more than 64 characters")
    return text


def _short(name: object) -> str:
    return str(name)[:MOST_NAME]


def _event(payload: bytes, key: Key) -> Happened:
    if len(payload) > MOST_EVENT_BYTES:
        raise WireError(f"event of {len(payload)} bytes; at most {MOST_EVENT_BYTES}")
    view = parse_event(payload)
    boot_id, session, number = view.id.rsplit("-", 2)
    if view.document.get("source") != f"linkhold/{key[0]}/{key[1]}":
        raise WireError("event of another node than its topic's")
    data = view.document.get("data")
    return Happened(
        boot_id=boot_id[:MOST_NAME],
        session=_name(session),
        seq=_sequence(number),
        type=view.type[:64],
        subject=view.subject[:200],
        at_s=from_rfc3339(view.time),
        data=data if isinstance(data, dict) else {},
    )


def _sequence(text: str) -> int:
    number = int(text)
    if not 0 < number < 1 << 53:
        raise WireError(f"event number {text[:20]}")
    return number


def _state(payload: bytes, key: Key) -> Report:
    view = parse_state(payload)
    if (view.site, view.node) != key:
        raise WireError("state of another node than its topic's")
    document = view.document
    detail = document.get("detail") or {}
    links = dict(list((detail.get("links") or {}).items())[:MOST_LINKS])
    bonds = dict(list((detail.get("bonds") or {}).items())[:MOST_BONDS])
    lost = tuple(_lost(bonds))
    at_s = from_rfc3339(document["at"])
    silent = {member for _, members in lost for member in members}
    maintenance = document.get("maintenance") or {}
    return Report(
        boot_id=view.boot_id[:MOST_NAME],
        session=view.session[:MOST_NAME],
        order=view.order,
        boot_s=at_s - view.mono_ns / 1e9,
        clock_synced=document.get("clock_synced") is not False,
        power=view.power.value,
        alerts=tuple(_alert(one, at_s) for one in list(document.get("alerts") or ())[:MOST_ALERTS]),
        links=frozenset(map(_short, links)),
        dark=frozenset(_short(n) for n, v in links.items() if v["carrier"] is False) | silent,
        lost=lost,
        protection=_protection(view, bonds),
        training=_training(view),
        stopping=any(one.get("kind") == "shutdown" for one in document.get("notices") or ()),
        maintenance_id=str(maintenance.get("id", ""))[:64],
        maintenance_until_s=from_rfc3339(maintenance["until"]) if maintenance else 0.0,
        maintenance_left_s=_left_s(maintenance, view.mono_ns),
    )


def _left_s(maintenance: Mapping[str, Any], mono_ns: int) -> float:
    """Return how long planned work had to go when the state was made, by no wall clock at all."""
    until_ns = maintenance.get("until_mono_ns")
    if not isinstance(until_ns, int):
        return MOST_S if maintenance else 0.0
    return max(0.0, min(MOST_S, (until_ns - mono_ns) / 1e9))


def _alert(value: Mapping[str, Any], at_s: float) -> NodeAlert:
    since, severity = value.get("since"), str(value["severity"])
    return NodeAlert(
        fingerprint=str(value["fingerprint"])[:64],
        type=str(value["type"])[:64],
        severity=severity if severity in SEVERITIES else "warning",
        subject=str(value["subject"])[:200],
        since_s=from_rfc3339(since) if since else at_s,
        text=str(value["text"])[:1000],
    )


def _lost(bonds: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the bonds with members that carry nothing: without link, or with a dead path."""
    for name, bond in bonds.items():
        members = (bond.get("members") or {}).items()
        lost = [_short(m) for m, v in members if not v["good"] or v.get("path") == "dead"]
        if lost:
            yield _short(name), tuple(lost[:MOST_MEMBERS])


def _protection(view: StateView, bonds: Mapping[str, Any]) -> str:
    """Return what still carries, and what is behind it."""
    parts = []
    for name, bond in list(bonds.items())[:4]:
        members = bond.get("members") or {}
        good = sum(bool(v["good"]) and v.get("path") != "dead" for v in members.values())
        if members:
            active = f", {_short(bond['active'])} carries" if bond.get("active") and good else ""
            parts.append(f"{_short(name)} has {good} of {len(members)} members{active}")
    ways = (view.document.get("detail") or {}).get("paths") or {}
    carrying = sorted({_short(way["link"]) for way in ways.values() if way.get("carries")})
    if view.network.value == "down":
        parts.append("no way out carries")
    elif carrying:
        parts.append(f"ways out over {', '.join(carrying[:4])}")
    if view.power.value in {"battery", "low"}:
        parts.append("the battery")
    return "; ".join(parts) or "nothing that the agent knows of"


def _training(view: StateView) -> str:
    """Return what training and uploads of the node were told to do."""
    advice = view.advice
    parts = [f"uploads: {advice.uploads.value}", f"training: {advice.training.value}"]
    if advice.holds:
        parts.append(f"jobs that asked for it hold ({', '.join(advice.holds)[:100]})")
    if advice.checkpoint is not None:
        parts.append(f"a checkpoint is asked for ({advice.checkpoint.reason[:100]})")
    if advice.stop is not None:
        parts.append(f"a resumable stop is asked for ({advice.stop.reason[:100]})")
    return ", ".join(parts)


_READERS: Mapping[str, Callable[[bytes, Key], Report | Birth | Happened | Status]] = {
    "status": _status,
    "birth": _birth,
    "state": _state,
    "event": _event,
}
