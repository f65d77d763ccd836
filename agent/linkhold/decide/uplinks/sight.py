"""The uplinks of the configuration as the host shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.config.settings import Mode
from linkhold.decide.paths import MAIN_TABLE, link_trouble
from linkhold.decide.uplinks.values import LineRules, LineSight, Rules, Sights

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from linkhold.config.settings import Settings
    from linkhold.model import DefaultRoute, HostNetwork


def rules_of(settings: Settings, seed: int) -> Rules:
    """Return what the owner wants; ``seed`` differs from node to node, for jitter."""
    policy = settings.uplink_policy
    return Rules(
        lines=tuple(LineRules(one.link, one.targets, one.metered) for one in settings.uplinks),
        enforce=settings.mode is Mode.ENFORCE,
        probe_interval_s=policy.probe_interval_s,
        metered_interval_s=policy.metered_interval_s,
        down_after=policy.down_after,
        up_after_s=policy.up_after_s,
        switches_per_hour=policy.switches_per_hour,
        seed=seed,
    )


def sights(
    rules: Rules, host: HostNetwork, *, placed: str, strict: AbstractSet[str] = frozenset()
) -> Sights:
    """Return the uplinks of ``rules`` as they are now.

    ``placed`` is the uplink that our own routes put in front, ``strict`` are those whose reverse
    path filter drops answers.
    """
    main = [route for route in host.routes if route.table == MAIN_TABLE]
    lines = {link: _line(host, link, main, strict=link in strict) for link in rules.order}
    return Sights(lines, _natural(host, main), placed)


def _line(host: HostNetwork, name: str, main: list[DefaultRoute], *, strict: bool) -> LineSight:
    link = host.by_name(name)
    if link is None:
        return LineSight(0, f"{name} is gone")
    routes = sorted(route for route in main if route.index == link.index)
    obstacle = "" if link.usable else link_trouble(link)
    if not obstacle and not routes:
        obstacle = f"{name} has no default route"
    gateways = tuple(dict.fromkeys(route.gateway for route in routes if route.gateway))
    return LineSight(link.index, obstacle, gateways, strict=strict)


def _natural(host: HostNetwork, main: list[DefaultRoute]) -> str:
    """Return the interface of the host's best default route; IPv4 decides where there is both."""
    for family in ("inet", "inet6"):
        routes = [route for route in main if route.family == family]
        if routes:
            best = min(routes, key=lambda route: (route.metric, route.index))
            link = host.links.get(best.index)
            return link.name if link is not None else f"interface {best.index}"
    return ""


def own_routes(host: HostNetwork, table: int) -> frozenset[DefaultRoute]:
    """Return the default routes in a table of ours."""
    return frozenset(route for route in host.routes if route.table == table)
