"""Uplinks that make no sense together, or with what the rest of the file says of their links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.config.finding import Finding
from linkhold.config.schema import plain, shown
from linkhold.config.settings import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.schema import Key
    from linkhold.config.settings import Settings


def uplink_contradictions(settings: Settings) -> Iterator[Finding]:
    """Yield every setting of the uplinks that disagrees with another one."""
    if len(settings.uplinks) == 1:
        text = "one entry leaves nothing to switch to; allowed: none, or 2 and more"
        yield Finding(("uplinks",), text)
    first: dict[str, int] = {}
    for number, uplink in enumerate(settings.uplinks):
        at: Key = ("uplinks", number, "link")
        before = first.setdefault(uplink.link, number)
        if before != number:
            text = f"{shown(uplink.link)} is given twice; allowed: an interface once"
            yield Finding(at, text, ("uplinks", before, "link"))
        yield from _link(settings, uplink.link, at)
    policy = settings.uplink_policy
    if policy.metered_interval_s < policy.probe_interval_s:
        rare, usual = plain(policy.metered_interval_s), plain(policy.probe_interval_s)
        yield Finding(
            ("uplink_policy", "metered_interval_s"),
            f"{rare} is more often than probe_interval_s, {usual}; allowed: at least that",
            ("uplink_policy", "probe_interval_s"),
        )


def _link(settings: Settings, link: str, at: Key) -> Iterator[Finding]:
    if link in settings.links and settings.links[link].role is Role.IGNORE:
        text = f"{shown(link)} has the role ignore; allowed: a link that is watched"
        yield Finding(at, text, ("links", link, "role"))
    for name, bond in settings.bonds.items():
        if link in bond.members:
            text = f"{shown(link)} is a member of {name}; allowed: {name}, or links outside of it"
            number = bond.members.index(link)
            yield Finding(at, text, ("bonds", name, "members", number))
