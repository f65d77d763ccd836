"""What is kept of a node's state document, and which of two states is the newer one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.fleet_view.words import printable
from linkhold.model import WireError
from linkhold.wire import from_rfc3339, load_json, parse_state
from linkhold.wire.maintenance import MOST_S
from linkhold.wire.reading import flaw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_LINES = 8
"""Causes, alerts and notices of one node that are kept for its row."""


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An open alert in words; ``since_s`` is of the node's wall clock, 0 when it is not told."""

    severity: str
    text: str
    since_s: float


@dataclass(frozen=True, slots=True)
class Present:
    """How a node is, as its newest state says. Times are of the node's wall clock, in seconds.

    ``boot_s`` is when its boot began; ``payload`` the whole document, read again for details.
    ``work`` is what planned work is about, ``work_until_s`` its end: nobody is to be woken before.
    ``work_left_s`` is how long it had to go when the state was made, by no wall clock.
    """

    boot_id: str
    order: tuple[int, int, int]
    boot_s: float
    at_s: float
    clock_synced: bool
    network: str
    power: str
    training: str
    uploads: str
    since_s: float
    causes: tuple[str, ...]
    alerts: tuple[AlertLine, ...]
    notices: tuple[str, ...]
    checkpoint: str
    stop: str
    work: str
    work_until_s: float
    work_left_s: float
    payload: bytes

    @property
    def critical(self) -> bool:
        """Whether an alert is open for which somebody is woken."""
        return any(alert.severity == "critical" for alert in self.alerts)

    def is_newer(self, than: Present, *, live: bool) -> bool:
        """Tell whether this state replaces ``than``; ``live``: it was said now, not retained.

        Two brokers may hold states of one node. Within a boot they are in order; of two boots
        the one that began later is newer, by the node's clock, and where that clock was not set
        the one that is being said.
        """
        if self.boot_id == than.boot_id:
            return self.order >= than.order
        if self.clock_synced and than.clock_synced:
            return self.boot_s > than.boot_s
        return live or self.boot_s > than.boot_s


def read_state(payload: bytes) -> Present:
    """Read a published state. Raises :class:`WireError` for what is none."""
    view = parse_state(payload)
    document = view.document
    advice = view.advice
    at_s = _time(document.get("at"))
    try:
        return Present(
            boot_id=view.boot_id,
            order=view.order,
            boot_s=at_s - view.mono_ns / 1e9,
            at_s=at_s,
            clock_synced=document.get("clock_synced") is not False,
            network=view.network.value,
            power=view.power.value,
            training=advice.training.value,
            uploads=advice.uploads.value,
            since_s=_time(document.get("since")),
            causes=tuple(printable(line) for line in view.cause[:MOST_LINES]),
            alerts=tuple(_alert(one) for one in _few(document.get("alerts"))),
            notices=tuple(_notice(one) for one in _few(document.get("notices"))),
            checkpoint=printable(advice.checkpoint.reason) if advice.checkpoint else "",
            stop=printable(advice.stop.reason) if advice.stop else "",
            work=_work(document.get("maintenance")),
            work_until_s=_time((document.get("maintenance") or {}).get("until")),
            work_left_s=_work_left_s(document.get("maintenance"), view.mono_ns),
            payload=payload,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WireError(f"state document: {flaw(error)}") from error


def document_of(present: Present) -> Mapping[str, Any]:
    """Return the whole document of a state that was read before."""
    outer = load_json(present.payload)
    document = outer.get("data", outer)
    return document if isinstance(document, dict) else {}


def _few(value: Any) -> Iterable[Mapping[str, Any]]:
    return list(value or ())[:MOST_LINES]


def _alert(one: Mapping[str, Any]) -> AlertLine:
    return AlertLine(str(one["severity"]), printable(one["text"]), _time(one.get("since")))


def _notice(one: Mapping[str, Any]) -> str:
    return printable(f"{one['kind']}: {one['action']}")


def _work(maintenance: Mapping[str, Any] | None) -> str:
    if not maintenance:
        return ""
    return printable(f"{maintenance['why']} (by {maintenance['by']})")


def _work_left_s(maintenance: Mapping[str, Any] | None, mono_ns: int) -> float:
    until_ns = (maintenance or {}).get("until_mono_ns")
    if not isinstance(until_ns, int):
        return MOST_S
    return max(0.0, min(MOST_S, (until_ns - mono_ns) / 1e9))


def _time(value: Any) -> float:
    try:
        return from_rfc3339(value) if value else 0.0
    except WireError:
        return 0.0
