"""What the keeping of bonds means for the node: its network, its causes and its alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.alert_tracking import Condition
from linkhold.decide.keeping.drift import ABSENCES, LOSSES, SET_DOWN
from linkhold.model import Network, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model import BondKeep, Drift

MOST_TEXTS = 3


def judge(
    keeps: tuple[BondKeep, ...], network: Network, cause: tuple[str, ...]
) -> tuple[Network, tuple[str, ...]]:
    """Return network and cause with what configured bonds lack.

    A member that left is a lost spare, even though no link went down.
    """
    losses = tuple(text for keep in keeps for text in _losses(keep))
    if not losses:
        return network, cause
    if network is Network.OK:
        network = Network.DEGRADED
    return network, tuple(dict.fromkeys((*cause, *losses)))


def _losses(keep: BondKeep) -> Iterator[str]:
    yield from (drift.text for drift in keep.drift if drift.kind in LOSSES)
    if any(drift.kind in ABSENCES for drift in keep.drift):
        missing = sum(drift.kind in ABSENCES | SET_DOWN for drift in keep.drift)
        yield f"{keep.bond}: {keep.members - missing} of {keep.members} members"


def conditions(keeps: tuple[BondKeep, ...]) -> Iterator[Condition]:
    """Yield what a person should know."""
    for keep in keeps:
        if keep.conflict is not None:
            by = keep.conflict.by or "who does is not known"
            text = (
                f"{keep.bond}: what linkhold repairs is undone again and again "
                f"({keep.conflict.what}; {by}); it has stopped. Make both agree, then run: "
                f"linkhold bond repair {keep.bond}"
            )
            yield Condition("bond.config_conflict", keep.bond, Severity.WARNING, text)
        elif keep.repair != "running":
            yield from _drift(keep)


def _drift(keep: BondKeep) -> Iterator[Condition]:
    """A fault is one alert: what is set down is that of a lost member or link."""
    told = [drift for drift in keep.drift if drift.kind not in SET_DOWN]
    if not told:
        return
    texts = _texts(told)
    faults = tuple("/".join(drift.key) for drift in told)
    what = {
        "": "",
        "observe only": f"; mode observe; to repair it: linkhold bond repair {keep.bond}",
    }.get(keep.repair, f"; its repair {keep.repair}")
    gone = any(drift.kind == "gone" for drift in keep.drift)
    severity = Severity.CRITICAL if gone else Severity.WARNING
    text = f"{keep.bond}: {texts}{what}"
    yield Condition("bond.drift", keep.bond, severity, text, faults=faults)


def _texts(told: list[Drift]) -> str:
    """Return what differs, in words, with why it is not repaired; a reason for all of it once."""
    obstacles = {drift.obstacle for drift in told}
    shared = next(iter(obstacles)) if len(obstacles) == 1 else ""
    texts = [
        drift.text + (f" ({drift.obstacle})" if drift.obstacle and not shared else "")
        for drift in told
    ]
    if len(texts) > MOST_TEXTS:
        texts = [*texts[:MOST_TEXTS], f"and {len(texts) - MOST_TEXTS} more"]
    return "; ".join(texts) + (f" ({shared})" if shared else "")
