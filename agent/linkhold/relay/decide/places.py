"""Where a node stands: rack and switches, from the configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkhold.config.relay import PlaceSettings
    from linkhold.relay.decide.values import Key


@dataclass(frozen=True, slots=True)
class Place:
    """Where one node stands; ``links`` are its switches by interface."""

    rack: str = ""
    switch: str = ""
    links: Mapping[str, str] = field(default_factory=dict)

    def switch_of(self, link: str) -> str:
        """Return the switch that a link hangs on, empty where nobody said so."""
        return self.links.get(link, self.switch)


NOWHERE = Place()


class Places:
    """Finds the place of a node; each is looked for once."""

    def __init__(self, settings: Sequence[PlaceSettings]) -> None:
        self._rules = [(one.site, _pattern(one.nodes), _place(one)) for one in settings]
        self._known: dict[Key, Place] = {}
        self._racks: dict[str, set[str]] = {}
        for _, _, place in self._rules:
            for switch in {place.switch, *place.links.values()} - {""}:
                self._racks.setdefault(switch, set()).add(place.rack)

    def of(self, key: Key) -> Place:
        """Return the place of a node, one without names where no rule matches."""
        place = self._known.get(key)
        if place is None:
            site, name = key
            matches = (
                place
                for of_site, pattern, place in self._rules
                if of_site in {"", site} and pattern.fullmatch(name)
            )
            place = self._known[key] = next(matches, NOWHERE)
        return place

    def forget(self, key: Key) -> None:
        """Forget a node."""
        self._known.pop(key, None)

    def rack_of(self, switch: str) -> str:
        """Return the rack of a switch; empty when it serves several."""
        racks = self._racks.get(switch, set())
        return next(iter(racks)) if len(racks) == 1 else ""

    def members(self, group: str, keys: Sequence[Key]) -> list[Key]:
        """Return the nodes of a rack, of a switch or of a site, or those whose name matches."""
        pattern = re.compile(translate(group))
        return [
            key
            for key in keys
            if group in {key[0], self.of(key).rack, self.of(key).switch}
            or group in self.of(key).links.values()
            or pattern.fullmatch(key[1])
        ]


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(translate(name) for name in names))


def _place(settings: PlaceSettings) -> Place:
    links = {link: cable.switch for link, cable in settings.links.items()}
    return Place(settings.rack, settings.switch, links)
