"""Which alerts explain which others: the shipped Alertmanager's inhibit_rules, for other sinks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.relay.decide.values import Labels, Page

_WAYS = "Node(Link|Bond|Network|Path|Uplink).*"


@dataclass(frozen=True, slots=True)
class Rule:
    """While ``source`` fires, ``target`` with the same values of the ``equal`` labels is quiet."""

    source: str
    target: str
    equal: tuple[str, ...] = ()


RULES = (
    Rule("SiteDark", f"RackDark|SwitchDown|NodeOffline|{_WAYS}", ("site",)),
    Rule("SitePowerLost", "NodePower.*", ("site",)),
    Rule("RackDark", f"SwitchDown|NodeOffline|{_WAYS}", ("site", "rack")),
    Rule("SwitchDown", f"NodeOffline|{_WAYS}", ("site", "switch")),
    Rule("NodeOffline", "Node(?!Offline$).*", ("site", "node")),
    Rule("NodeLinkFlapping", "NodeLinkDown|NodeBondDegraded", ("site", "node", "subject")),
    Rule("FleetUnseen", "FleetBrokerDown|FleetPartUnseen"),
    Rule("FleetPartUnseen", "FleetBrokerDown", ("broker",)),
)
_SOURCES = frozenset(rule.source for rule in RULES)


class Inhibition:
    """The sources that fire now."""

    def __init__(self) -> None:
        self._firing: dict[Labels, dict[str, str]] = {}

    def note(self, pages: Iterable[Page]) -> None:
        """Take in what begins and ends."""
        for page in pages:
            if page.name in _SOURCES and page.ends_s is None:
                self._firing[page.labels] = dict(page.labels)
            else:
                self._firing.pop(page.labels, None)

    def hides(self, page: Page) -> bool:
        """Tell whether something that fires explains this one."""
        labels = dict(page.labels)
        rules = [rule for rule in RULES if re.fullmatch(rule.target, page.name)]
        return any(
            source["alertname"] == rule.source
            and all(source.get(name) == labels.get(name) for name in rule.equal)
            for rule in rules
            for source in self._firing.values()
        )
