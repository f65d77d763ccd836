"""Which causes follow from what probes remember: who is dead, and what explains whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.reach_values import Kind, Line, Memory, Verdict
from linkhold.model.probes import Cause, CauseKind, Probed, without_query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.reach_values import Aim

NOBODY = "it has no gateway that could be asked; its link decides"
LOST = frozenset({Verdict.DEAD, Verdict.MUTE})
TARGETS = frozenset({Kind.PATH, Kind.STORAGE})


def causes(memory: Memory, aims: tuple[Aim, ...]) -> Iterator[Cause]:
    """Yield every cause that stands, those that explain others first."""
    if memory.route_lost_ns:
        text = "the default route is gone"
        yield Cause(CauseKind.DEFAULT_ROUTE_LOST, "default route", text, memory.route_lost_ns)
    for kind in Kind:
        group = [aim for aim in aims if aim.kind is kind]
        for aim in group:
            line = memory.lines[aim.name]
            if line.verdict in LOST and not _is_premature(memory, aims, aim):
                yield Cause(
                    _CAUSES[kind],
                    aim.name,
                    _text(memory, aim, line),
                    line.since_ns,
                    because="" if kind is Kind.GATEWAY else _root(memory, aims, aim),
                    partial=_is_partial(memory, aims, aim),
                    first_hop=kind is Kind.GATEWAY,
                    never=aim.name not in memory.heard,
                )


def _is_premature(memory: Memory, aims: tuple[Aim, ...], aim: Aim) -> bool:
    """Tell whether it is too early to blame a resolver that was never heard.

    While no gateway has answered or is lost, nothing is known of the way there: it may come up.
    """
    if aim.kind is not Kind.DNS or memory.lines[aim.name].verdict is not Verdict.MUTE:
        return False
    ways = [memory.lines[one.name] for one in aims if one.kind is Kind.GATEWAY and one.how]
    return bool(ways) and all(line.verdict is Verdict.UNKNOWN and not line.blind for line in ways)


def probed(memory: Memory, aims: tuple[Aim, ...]) -> tuple[Probed, ...]:
    """Return what is known of each aim, for people and for the next start of the agent."""
    return tuple(_probed(memory, aim, memory.lines[aim.name]) for aim in aims)


def _probed(memory: Memory, aim: Aim, line: Line) -> Probed:
    return Probed(
        name=aim.name,
        kind=aim.kind.value,
        target=without_query(aim.target),
        link=aim.link,
        verdict=line.verdict.value,
        reason=line.reason if aim.how else NOBODY,
        since_ns=line.since_ns,
        heard=aim.name in memory.heard,
    )


def _text(memory: Memory, aim: Aim, line: Line) -> str:
    never = "" if aim.name in memory.heard else ", and never has since the start"
    return _TEXTS[aim.kind].format(aim.name, never, line.reason)


def _is_partial(memory: Memory, aims: tuple[Aim, ...], lost: Aim) -> bool:
    """Tell whether something shows that there is a way in spite of this loss.

    For a resolver another one that answers. For a gateway another one that does, or whom nobody can
    ask; and for one that was never heard also any target of the owner's that answers.
    """
    if lost.kind in TARGETS:
        return False
    for aim in aims:
        line = memory.lines[aim.name]
        if aim.kind is lost.kind and _can_stand_in(aim, line):
            return True
        mute_gateway = lost.kind is Kind.GATEWAY and lost.name not in memory.heard
        if mute_gateway and aim.kind in TARGETS and line.verdict is Verdict.ALIVE:
            return True
    return False


def _can_stand_in(aim: Aim, line: Line) -> bool:
    if aim.kind is Kind.DNS:
        return line.verdict is Verdict.ALIVE
    unasked = line.verdict is Verdict.UNKNOWN and (not aim.how or line.blind > 0)
    return line.verdict is Verdict.ALIVE or unasked


def _root(memory: Memory, aims: tuple[Aim, ...], aim: Aim) -> str:
    """Return what explains that ``aim`` is lost: its gateways are, or the default route is.

    One gateway that may be alive leaves a way; a gateway nobody knows of explains nothing.
    """
    if memory.route_lost_ns and not aim.link:
        return "default route"
    ways = [
        one for one in aims if one.kind is Kind.GATEWAY and (not aim.link or one.link == aim.link)
    ]
    lost = [way.name for way in ways if memory.lines[way.name].verdict in LOST]
    return lost[0] if ways and len(lost) == len(ways) else ""


_CAUSES = {
    Kind.GATEWAY: CauseKind.PATH_DEAD,
    Kind.PATH: CauseKind.PATH_DEAD,
    Kind.DNS: CauseKind.DNS_DEAD,
    Kind.STORAGE: CauseKind.STORAGE_DEAD,
}
_TEXTS = {
    Kind.GATEWAY: "{} does not answer{} ({})",
    Kind.PATH: "the path to {} is dead{} ({})",
    Kind.DNS: "{} does not resolve{} ({})",
    Kind.STORAGE: "storage {} cannot be reached{} ({})",
}
