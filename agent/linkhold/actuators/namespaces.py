"""The sysctls of this and of other network namespaces: looked at and written where they count."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.actuators import sysctls
from linkhold.config.keepalive import Namespaces
from linkhold.decide.keepalive.sysctls import KEYS
from linkhold.model import Unavailable
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
    """All namespaces of a scope: the host's own first; ``unseen`` says what was not looked at.

    ``there`` are the inodes of all namespaces of the host, None where some may not have been seen.
    """

    values: tuple[Values, ...]
    places: Mapping[int, NetNamespace]
    unseen: str = ""
    there: frozenset[int] | None = None


def look(scope: Namespaces, known: Mapping[int, Values] | None = None) -> Host:
    """Return the values of every namespace in ``scope``. May take a second: use a thread.

    Namespaces in ``known`` are not visited again: their values are returned as they were. One
    that ends while it is visited is left out. When the helper that visits them gives no answer,
    that is in ``unseen``: the host's own values do not wait for it.
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
    unseen = _unseen(everywhere, reader)
    there = None if unseen else frozenset(place.inode for place in everywhere.found)
    try:
        seen = _read(list(left.values())[:MOST])
    except Unavailable as error:
        seen, unseen = [], [*unseen, str(error)]
    if len(left) > MOST:
        unseen.append(
            f"{len(left) - MOST} namespaces, more than {MOST} at a time: their turn comes"
        )
    kept = [value for inode, value in (known or {}).items() if inode in found]
    return Host((own, *kept, *seen), found, "; ".join(unseen), there)


def _unseen(everywhere: namespaces.Namespaces, reader: Reader) -> list[str]:
    said = reader.problems[:3]
    if everywhere.unread:
        said.append(f"{everywhere.unread} processes hide their namespace (needs CAP_SYS_PTRACE)")
    return said


def _read(places: Sequence[NetNamespace]) -> list[Values]:
    if not places:
        return []
    visited = inside.visit([Visit(one.path, one.inode, read=KEYS) for one in places], VISIT_S)
    found = zip(places, visited, strict=True)
    return [_values(place, one) for place, one in found if not one.gone]


def _values(place: NetNamespace, visited: Visited) -> Values:
    error = visited.error or sysctls.worded(visited.errors)
    return Values(place.inode, place.name, dict(visited.values), error)


def write_in(places: Mapping[int, NetNamespace]) -> sysctls.Writer:
    """Return what writes sysctls in the host's own namespace and in ``places``.

    One helper visits all of them. What cannot be written is in the ``error`` of its namespace; one
    that has ended meanwhile is no trouble, it is not there at the next look.
    """

    def write(changes: Sequence[sysctls.Change]) -> list[Values]:
        own = sysctls.own_namespace()
        after = {
            before.namespace: replace(sysctls.write(values), name=before.name)
            for before, values in changes
            if before.namespace == own
        }
        after |= _write(places, [one for one in changes if one[0].namespace != own])
        return [after[before.namespace] for before, _ in changes]

    return write


def _write(
    places: Mapping[int, NetNamespace], changes: Sequence[sysctls.Change]
) -> dict[int, Values]:
    visits = [
        Visit(places[before.namespace].path, before.namespace, read=KEYS, write=dict(values))
        for before, values in changes
    ]
    try:
        visited = inside.visit(visits, VISIT_S)
    except Unavailable as error:
        return {before.namespace: replace(before, error=str(error)) for before, _ in changes}
    return {
        before.namespace: before if one.gone else _values(places[before.namespace], one)
        for (before, _), one in zip(changes, visited, strict=True)
    }


def restore() -> list[sysctls.Restored]:
    """Put every namespace back as it was found. Raises :class:`HostError`.

    One that was not seen is forgotten only where it is sure to have ended.
    """
    host = look(Namespaces.ALL) if sysctls.Record.load().namespaces else Host((), {})
    present = {one.namespace: one for one in host.values}

    def seen(inode: int, name: str) -> Values | None:
        gone = host.there is not None and inode not in host.there
        hidden = Values(
            inode, name, {}, f"not seen ({host.unseen or 'it may have ended just now'})"
        )
        return present.get(inode) or (None if gone else hidden)

    return sysctls.restore(seen, write_in(host.places))
