"""Entries of ``paths:`` that make no sense together, or with the rest of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.config.finding import Finding
from linkhold.config.schema import duration, shown
from linkhold.config.settings import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.paths import PathTarget
    from linkhold.config.schema import Key
    from linkhold.config.settings import Settings

WAYS = ("ping", "tcp", "http")


def path_contradictions(settings: Settings) -> Iterator[Finding]:
    """Yield every setting of the path probes that disagrees with another one."""
    paths = settings.paths
    first: dict[str, int] = {}
    for number, target in enumerate(paths.targets):
        at: Key = ("paths", "targets", number)
        yield from _one_way(target, at)
        before = first.setdefault(target.name, number)
        if before != number:
            text = f"{shown(target.name)} is given twice; allowed: a name once"
            yield Finding((*at, "name"), text, ("paths", "targets", before, "name"))
        link = settings.links.get(target.link)
        if link is not None and link.role is Role.IGNORE:
            text = f"{shown(target.link)} has the role ignore; allowed: a link that is watched"
            yield Finding((*at, "link"), text, ("links", target.link, "role"))
    if paths.interval_trouble > paths.interval_ok:
        rare, usual = duration(paths.interval_trouble), duration(paths.interval_ok)
        yield Finding(
            ("paths", "interval_trouble"),
            f"{rare} is less often than interval_ok, {usual}; allowed: at most that",
            ("paths", "interval_ok"),
        )


def _one_way(target: PathTarget, at: Key) -> Iterator[Finding]:
    given = [way for way in WAYS if getattr(target, way)]
    if not given:
        yield Finding(at, f"nothing says how to ask it; allowed: one of {', '.join(WAYS)}")
    elif len(given) > 1:
        text = f"{' and '.join(given)} are given; allowed: one of {', '.join(WAYS)}"
        yield Finding((*at, given[1]), text, (*at, given[0]))
