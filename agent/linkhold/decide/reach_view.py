"""What probes beyond the node mean for it: its network, events and alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.alert_tracking import Condition
from linkhold.decide.happening import Happening
from linkhold.model import Network, Severity
from linkhold.model.probes import CauseKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.probes import Cause, Probed

ALIVE = "alive"


def told(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes that probes tell; a lost default route is told by the links' own news.

    As a cause it stays in the state, where it explains what is dead because of it.
    """
    return tuple(one for one in causes if one.kind is not CauseKind.DEFAULT_ROUTE_LOST)


def roots(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes that nothing else explains."""
    return tuple(one for one in told(causes) if not one.because)


def judge(
    causes: tuple[Cause, ...], network: Network, cause: tuple[str, ...]
) -> tuple[Network, tuple[str, ...]]:
    """Return network and cause with what the probes found.

    When no gateway answers that did before, nothing leaves the node, whatever its links say. When
    none has since the start, nobody knows whether anything does. What is dead behind a gateway
    that answers is a fault of others, and degraded.
    """
    found = roots(causes)
    if not found or network in (Network.DOWN, Network.UNKNOWN):
        return network, cause
    cut_off = [one for one in found if one.first_hop and not one.partial]
    texts = tuple(dict.fromkeys((*cause, *(one.text for one in found))))
    if any(not one.never for one in cut_off):
        return Network.DOWN, texts
    return Network.UNKNOWN if cut_off else Network.DEGRADED, texts


def storage_dead(causes: tuple[Cause, ...]) -> bool:
    """Whether uploads have nowhere to go."""
    return any(one.kind is CauseKind.STORAGE_DEAD for one in causes)


def compare(
    before: tuple[Cause, ...], after: tuple[Cause, ...], probes: tuple[Probed, ...], now_ns: int
) -> list[Happening]:
    """Return what happened between two looks; ``probes`` is what is known after the second."""
    old = {(one.kind, one.subject): one for one in told(before)}
    new = {(one.kind, one.subject): one for one in told(after)}
    alive = {one.name for one in probes if one.verdict == ALIVE}
    began = [_began(new[key]) for key in new if key not in old]
    return began + [_over(old[key], alive, now_ns) for key in old if key not in new]


def _began(one: Cause) -> Happening:
    severity = Severity.INFO if one.because else Severity.WARNING
    data = {"text": one.text, "because": one.because, "partial": one.partial, "never": one.never}
    return Happening(f"path.{one.kind.value}", one.subject, data, severity)


def _over(one: Cause, alive: set[str], now_ns: int) -> Happening:
    data = {"was": one.kind.value, "lasted_s": round((now_ns - one.since_ns) / 1e9, 3)}
    return Happening("path.alive" if one.subject in alive else "path.unknown", one.subject, data)


def conditions(causes: tuple[Cause, ...], network: Network) -> Iterator[Condition]:
    """Yield what a person should know; with the network down its alert names the causes."""
    if network is Network.DOWN:
        return
    for one in roots(causes):
        held = "; uploads are held, training goes on" if one.kind is CauseKind.STORAGE_DEAD else ""
        text = one.text + held
        yield Condition(f"path.{one.kind.value}", one.subject, Severity.WARNING, text)
