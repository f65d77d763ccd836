"""Does the changed network work: looked at in the kernel and on the wire. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.decide.bonding.readback import differing
from linkhold.model.survey import Known
from linkhold.survey import echo, snapshot
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.model.look import Look

ASK_S = 1.0
MII_UP = 0


def failures(checks: Mapping[str, Any]) -> list[str]:
    """Return in words every check that does not hold now; waits at most a few seconds."""
    return [*_kernel(checks, snapshot.take()), *_wire(checks)]


def _kernel(checks: Mapping[str, Any], look: Look) -> Iterator[str]:
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
        yield from _members(look, name, bond.index, checks["members"].get(name, ()))
        joined = {port.name for port in look.ports_of(bond.index)}
        for member in checks.get("joined", {}).get(name, ()):
            if member not in joined:
                yield f"{member} is not in {name}"


def named(look: Look, options: Mapping[str, object]) -> dict[str, object]:
    """Return options with interfaces by name: ``primary`` and ``active_slave``, empty for none."""
    found = dict(options)
    for key in ("primary", "active_slave"):
        index = options.get(key)
        found[key] = look.name_of(index) if isinstance(index, int) and index else ""
    return found


def _members(look: Look, name: str, index: int, members: tuple[str, ...]) -> Iterator[str]:
    ports = {port.name: port for port in look.ports_of(index)}
    for member in members:
        port = ports.get(member)
        if port is None:
            yield f"{member} is not in {name}"
        elif not port.carrier or (port.port or {}).get("mii_status") != MII_UP:
            yield f"{member} is in {name} but has no link"


def _wire(checks: Mapping[str, Any]) -> Iterator[str]:
    for interface, targets in checks["answers"]:
        if targets and ask(interface, tuple(targets), timeout_s=ASK_S).verdict is Known.NO:
            yield f"none of {', '.join(targets)} answers over {interface}"
    for host in checks["pings"]:
        if echo.answers(host) is False:
            yield f"{host} does not answer any more"
