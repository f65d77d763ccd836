"""Whether a diagnosis that the fleet asks for is made: one at a time, and not often. Pure.

A diagnosis sends probes and reads much of the host, so whoever may write to ``cmd/diagnose`` must
not be able to keep a node at it. Even a refusal is told only so often.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

MINUTE_NS = 60 * 10**9
HOUR_NS = 60 * MINUTE_NS
PER_MINUTE = 1
PER_HOUR = 10
REFUSALS_PER_MINUTE = 4
REMEMBERED = 32
"""Ids by which a message that is delivered twice is known (QoS 1)."""


class Ruling(Enum):
    """What becomes of a request; the value names a counter."""

    TAKEN = "diagnoses_taken"
    REFUSED = "diagnoses_refused"
    UNANSWERED = "diagnoses_unanswered"
    REPEATED = "diagnoses_repeated"


@dataclass(frozen=True, slots=True)
class Desk:
    """What is remembered of former requests; times are of CLOCK_MONOTONIC, in ns."""

    running: str = ""
    begun_ns: tuple[int, ...] = ()
    refused_ns: tuple[int, ...] = ()
    known: tuple[str, ...] = ()


def rule(desk: Desk, request: str, now_ns: int) -> tuple[Desk, Ruling, str]:
    """Return the desk with this request, what becomes of it, and why it is refused."""
    if request in desk.known:
        return desk, Ruling.REPEATED, f"its id {request} was used before"
    begun = tuple(at for at in desk.begun_ns if now_ns - at < HOUR_NS)
    told = tuple(at for at in desk.refused_ns if now_ns - at < MINUTE_NS)
    desk = replace(desk, begun_ns=begun, refused_ns=told)
    why = _obstacle(desk, now_ns)
    if why and len(told) >= REFUSALS_PER_MINUTE:
        return desk, Ruling.UNANSWERED, why
    desk = replace(desk, known=(*desk.known, request)[-REMEMBERED:])
    if why:
        return replace(desk, refused_ns=(*told, now_ns)), Ruling.REFUSED, why
    return replace(desk, running=request, begun_ns=(*begun, now_ns)), Ruling.TAKEN, ""


def ended(desk: Desk) -> Desk:
    """Return the desk once the running diagnosis has ended."""
    return replace(desk, running="")


def _obstacle(desk: Desk, now_ns: int) -> str:
    if desk.running:
        left_s = max(1, _left_s(desk.begun_ns[-1], now_ns))
        return f"diagnosis {desk.running} is under way; {_again(left_s)}"
    last_minute = [at for at in desk.begun_ns if now_ns - at < MINUTE_NS]
    if len(last_minute) >= PER_MINUTE:
        return f"at most {PER_MINUTE} a minute; {_again(_left_s(last_minute[0], now_ns))}"
    if len(desk.begun_ns) >= PER_HOUR:
        left_s = _left_s(desk.begun_ns[0], now_ns, HOUR_NS)
        return f"at most {PER_HOUR} an hour; {_again(left_s)}"
    return ""


def _again(left_s: int) -> str:
    return f"ask again in {left_s} s with another id"


def _left_s(began_ns: int, now_ns: int, span_ns: int = MINUTE_NS) -> int:
    return -(-(began_ns + span_ns - now_ns) // 10**9)
