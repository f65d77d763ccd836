"""Does the changed network work: looked at in the kernel and on the wire. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.decide.bonding.readback import differing, named
from linkhold.model.survey import Known
from linkhold.survey import echo, snapshot
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.model.look import Look

ASK_S = 1.0


def failures(checks: Mapping[str, Any], *, whole: bool = True) -> list[str]:
    """Return in words every check that does not hold now; waits at most a few seconds.

    Without ``whole`` a member may have lost its link while another carries: that is a fault which
    the bond is there for, and no reason to undo it.
    """
    return [*_kernel(checks, snapshot.take(), whole=whole), *_wire(checks)]


def _kernel(checks: Mapping[str, Any], look: Look, *, whole: bool) -> Iterator[str]:
    """Compare the bonds as the kernel reports them with what was sent."""
    for name, wanted in checks["bonds"].items():
        bond = look.link(name)
        if bond is None or bond.bond is None:
            yield f"{name} is not there"
            continue
        for option, (want, seen) in differing(wanted, named(look, bond.bond)).items():
            yield f"{name}: {option} is {seen}, not {want} as it was set"
        if not bond.bond.get("active_slave"):
            yield f"{name} has no active member"
        members = checks["members"].get(name, ())
        yield from _members(look, name, bond.index, members, whole=whole)
        joined = {port.name for port in look.ports_of(bond.index)}
        for member in checks.get("joined", {}).get(name, ()):
            if member not in joined:
                yield f"{member} is not in {name}"


def _members(
    look: Look, name: str, index: int, members: tuple[str, ...], *, whole: bool
) -> Iterator[str]:
    ports = {port.name: port for port in look.ports_of(index)}
    for member in members:
        port = ports.get(member)
        if port is None:
            yield f"{member} is not in {name}"
        elif whole and not port.usable:
            yield f"{member} is in {name} but has no link"


def _wire(checks: Mapping[str, Any]) -> Iterator[str]:
    for interface, targets in checks["answers"]:
        if targets and ask(interface, tuple(targets), timeout_s=ASK_S).verdict is Known.NO:
            yield f"none of {', '.join(targets)} answers over {interface}"
    for host in checks["pings"]:
        if echo.answers(host) is False:
            yield f"{host} does not answer any more"
