"""What probes beyond the node mean for it: its network, events and alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.happening import Happening
from linkhold.model import Network, Severity
from linkhold.model.probes import CauseKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.probes import Cause

Condition = tuple[str, str, Severity, str]


def roots(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Return the causes that nothing else explains; a lost default route is told by the links."""
    return tuple(
        one for one in causes if not one.because and one.kind is not CauseKind.DEFAULT_ROUTE_LOST
    )


def judge(
    causes: tuple[Cause, ...], network: Network, cause: tuple[str, ...]
) -> tuple[Network, tuple[str, ...]]:
    """Return network and cause with what the probes found.

    Without an answer of any gateway nothing leaves the node, whatever its links say; what is dead
    behind a gateway that answers is a fault of others, and degraded.
    """
    found = roots(causes)
    if not found or network in (Network.DOWN, Network.UNKNOWN):
        return network, cause
    cut_off = any(one.first_hop and not one.partial for one in found)
    texts = tuple(dict.fromkeys((*cause, *(one.text for one in found))))
    return Network.DOWN if cut_off else Network.DEGRADED, texts


def storage_dead(causes: tuple[Cause, ...]) -> bool:
    """Whether uploads have nowhere to go."""
    return any(one.kind is CauseKind.STORAGE_DEAD for one in causes)


def compare(before: tuple[Cause, ...], after: tuple[Cause, ...], now_ns: int) -> list[Happening]:
    """Return what happened between two looks."""
    old = {(one.kind, one.subject): one for one in before}
    new = {(one.kind, one.subject): one for one in after}
    began = [new[key] for key in new if key not in old]
    over = [old[key] for key in old if key not in new]
    return [
        *(
            Happening(
                f"path.{one.kind.value}",
                one.subject,
                {"text": one.text, "because": one.because, "partial": one.partial},
                Severity.INFO if one.because else Severity.WARNING,
            )
            for one in began
        ),
        *(
            Happening(
                "path.alive",
                one.subject,
                {"was": one.kind.value, "lasted_s": round((now_ns - one.since_ns) / 1e9, 3)},
            )
            for one in over
        ),
    ]


def conditions(causes: tuple[Cause, ...], network: Network) -> Iterator[Condition]:
    """Yield what a person should know; with the network down its alert names the causes."""
    if network is Network.DOWN:
        return
    for one in roots(causes):
        held = "; uploads are held, training goes on" if one.kind is CauseKind.STORAGE_DEAD else ""
        yield f"path.{one.kind.value}", one.subject, Severity.WARNING, one.text + held
