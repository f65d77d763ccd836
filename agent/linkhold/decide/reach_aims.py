"""Which things are asked: the gateways and resolvers that the host has, and the owner's targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.reach_values import Aim, Kind, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from linkhold.config.paths import PathSettings, PathTarget
    from linkhold.model import WayOut

ROOT = "."
"""What a resolver is asked for without ``dns.names``: any knows the root, and it tells nobody
anything. That it is refused by policy shows the resolver alive."""
MOST_GATEWAYS = 8
MOST_RESOLVERS = 8


def rules(settings: PathSettings, seed: int) -> Rules:
    """Return the machine's rules; ``seed`` differs by node."""
    return Rules(
        ok_s=settings.interval_ok,
        trouble_s=settings.interval_trouble,
        timeout_s=settings.timeout,
        down_after=settings.down_after,
        seed=seed,
    )


def aims(
    settings: PathSettings,
    ways: tuple[WayOut, ...],
    resolvers: tuple[str, ...],
    elsewhere: AbstractSet[str] = frozenset(),
) -> tuple[Aim, ...]:
    """Return all that is asked, each thing once.

    ``ways`` are the node's ways out, of which those whose link carries are asked by their gateway:
    a link that is down explains itself. One without a gateway (point to point) stands for itself,
    and nobody is asked. ``resolvers`` are those of this host. ``elsewhere`` are links that have
    probes of their own: the uplinks'.
    """
    found = list(_gateways([way for way in ways if way.link not in elsewhere]))
    if settings.dns.watch:
        found += _resolvers(settings, resolvers)
    found += [_target(target) for target in settings.targets]
    return tuple({aim.name: aim for aim in found}.values())


def _gateways(ways: list[WayOut]) -> Iterator[Aim]:
    fit = [way for way in ways if not way.obstacle]
    for way in fit[:MOST_GATEWAYS]:
        if way.via:
            name = f"gateway {way.via} on {way.link}"
            yield Aim(name, Kind.GATEWAY, "gateway", way.via, way.link, given=True)
        else:
            yield Aim(f"way out {way.link}", Kind.GATEWAY, "", "", way.link, given=True)


def _resolvers(settings: PathSettings, resolvers: tuple[str, ...]) -> Iterator[Aim]:
    for server in resolvers[:MOST_RESOLVERS]:
        for name in settings.dns.names or (ROOT,):
            strict = name != ROOT
            shown = f"resolver {server}" + (f" for {name}" if strict else "")
            yield Aim(shown, Kind.DNS, "dns", server, query=name, strict=strict, given=not strict)


def _target(target: PathTarget) -> Aim:
    how = "icmp" if target.ping else "tcp" if target.tcp else "http"
    kind = Kind.STORAGE if target.storage else Kind.PATH
    where = target.ping or target.tcp or target.http
    return Aim(target.name, kind, how, where, target.link, strict=target.storage)
