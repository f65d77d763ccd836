"""What the uplinks mean for the node: its network, its causes and its alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.alert_tracking import Condition
from linkhold.model import Network, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model import Uplinks, UplinkView


def judge(
    uplinks: Uplinks, network: Network, cause: tuple[str, ...]
) -> tuple[Network, tuple[str, ...]]:
    """Return network and cause with what the uplinks add.

    An uplink in use that is dead is a network that is down, whatever its links say; a dead spare,
    or traffic on a spare, is degraded.
    """
    active = uplinks.active
    if active is None:
        return network, cause
    if active.verdict == "dead":
        added = tuple(text for line in uplinks.lines for text in _trouble(line))
        return Network.DOWN, tuple(dict.fromkeys((*cause, *added)))
    losses = tuple(dict.fromkeys(_losses(uplinks, active)))
    if network is Network.OK and losses:
        network = Network.DEGRADED
    return network, tuple(dict.fromkeys((*cause, *losses)))


def _losses(uplinks: Uplinks, active: UplinkView) -> Iterator[str]:
    if active is not uplinks.lines[0]:
        yield f"default traffic goes over {active.shown}"
    for line in uplinks.lines:
        yield from _trouble(line)


def _trouble(line: UplinkView) -> Iterator[str]:
    if line.verdict == "dead":
        yield line.why


def conditions(uplinks: Uplinks) -> Iterator[Condition]:
    """Yield what a person should know."""
    if not uplinks.lines:
        return
    if uplinks.problem:
        text = f"uplinks are not looked after: {uplinks.problem}"
        yield Condition("uplink.unmanaged", "uplinks", Severity.WARNING, text)
    if uplinks.locked:
        text = f"no more switches between uplinks for now: {uplinks.locked}"
        yield Condition("uplink.locked", "uplinks", Severity.WARNING, text)
    if uplinks.would:
        text = f"mode observe: in mode enforce default traffic would go over {uplinks.would}"
        yield Condition("uplink.would_switch", "uplinks", Severity.WARNING, text)
    yield from _line_conditions(uplinks)


def _line_conditions(uplinks: Uplinks) -> Iterator[Condition]:
    preferred, active = uplinks.lines[0], uplinks.active
    backup = active is not None and active is not preferred
    if active is not None and backup:
        why = {
            "alive": f"{preferred.link} answers, and traffic returns when it has done so for long",
            "dead": preferred.why,
        }.get(preferred.verdict, f"{preferred.link} is unknown: {preferred.reason}")
        text = f"default traffic goes over {active.shown}: {why}"
        yield Condition("uplink.backup", active.link, Severity.WARNING, text)
    for line in uplinks.lines:
        if line.verdict == "dead" and not (line is preferred and backup):
            severity = Severity.CRITICAL if line.active else Severity.WARNING
            text = f"uplink {line.why}; {_left(uplinks, line)}"
            yield Condition("uplink.dead", line.link, severity, text)
        elif line.verdict == "unknown" and line.reason and not line.reason.endswith("yet"):
            text = f"nobody knows whether uplink {line.link} works: {line.reason}"
            yield Condition("uplink.unknown", line.link, Severity.WARNING, text)


def _left(uplinks: Uplinks, dead: UplinkView) -> str:
    """Return what a dead uplink leaves: who could carry, or who still protects."""
    spares = [line.shown for line in uplinks.lines if line.verdict == "alive" and not line.active]
    if dead.active:
        rest = f"{spares[0]} answers" if spares else "no other uplink answers"
        return f"default traffic still goes there and is lost; {rest}"
    carries = uplinks.active or uplinks.lines[0]
    return f"{spares[0]} is left as a spare" if spares else f"no spare for {carries.link}"
