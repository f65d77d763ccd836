"""The sysctls of this and of other network namespaces: looked at and written where they count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.actuators import sysctls
from linkhold.config.keepalive import Namespaces
from linkhold.decide.keepalive.sysctls import KEYS
from linkhold.model.keepalive import Values
from linkhold.survey import inside, namespaces, training
from linkhold.survey.files import Reader
from linkhold.survey.inside import Visit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkhold.survey.inside import Visited
    from linkhold.survey.namespaces import NetNamespace

VISIT_S = 5.0
MOST = 1024


@dataclass(frozen=True, slots=True)
class Host:
    """All namespaces of a scope: the host's own first; ``unseen`` says what was not looked at."""

    values: tuple[Values, ...]
    places: Mapping[int, NetNamespace]
    unseen: str = ""


def look(scope: Namespaces, known: Mapping[int, Values] | None = None) -> Host:
    """Return the values of every namespace in ``scope``. May take a second: use a thread.

    Namespaces in ``known`` are not visited again: their values are returned as they were.
    """
    own = sysctls.read()
    if scope is Namespaces.HOST:
        return Host((own,), {})
    reader = Reader(Path("/"))
    everywhere = namespaces.find(reader)
    found = {place.inode: place for place in everywhere.found if place.inode != own.namespace}
    if scope is Namespaces.TRAINING:
        wanted = {process.namespace for process in training.find(reader).processes}
        found = {inode: place for inode, place in found.items() if inode in wanted}
    left = {inode: place for inode, place in found.items() if inode not in (known or {})}
    seen = {one.namespace: one for one in _read(list(left.values())[:MOST])}
    kept = {inode: value for inode, value in (known or {}).items() if inode in found}
    return Host((own, *kept.values(), *seen.values()), found, _unseen(everywhere, reader))


def _unseen(everywhere: namespaces.Namespaces, reader: Reader) -> str:
    said = reader.problems[:3]
    if everywhere.unread:
        said.append(f"{everywhere.unread} processes hide their namespace (needs CAP_SYS_PTRACE)")
    return "; ".join(said)


def _read(places: Sequence[NetNamespace]) -> list[Values]:
    if not places:
        return []
    visited = inside.visit([Visit(one.path, one.inode, read=KEYS) for one in places], VISIT_S)
    return [_values(place, one) for place, one in zip(places, visited, strict=True)]


def _values(place: NetNamespace, visited: Visited) -> Values:
    error = visited.error or sysctls.worded(visited.errors)
    return Values(place.inode, place.name, dict(visited.values), error)


def write_in(places: Mapping[int, NetNamespace]) -> sysctls.Writer:
    """Return what writes sysctls in the host's own namespace or in one of ``places``."""

    def write(before: Values, values: Mapping[str, int]) -> Values:
        if before.namespace == sysctls.own_namespace():
            return replace(sysctls.write(values), name=before.name)
        place = places[before.namespace]
        visit = Visit(place.path, place.inode, read=KEYS, write=dict(values))
        return _values(place, inside.visit([visit], VISIT_S)[0])

    return write


def restore() -> list[sysctls.Restored]:
    """Put every namespace back as it was found. Raises :class:`HostError`."""
    host = look(Namespaces.ALL) if sysctls.Record.load().namespaces else Host((), {})
    present = {one.namespace: one for one in host.values}
    return sysctls.restore(lambda inode, _: present.get(inode), write_in(host.places))
