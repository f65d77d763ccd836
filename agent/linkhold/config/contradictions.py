"""Values that are possible one by one and make no sense together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.config.bond_contradictions import bond_contradictions
from linkhold.config.finding import Finding
from linkhold.config.path_contradictions import path_contradictions
from linkhold.config.power_contradictions import credentials, power_contradictions
from linkhold.config.schema import plain, shown
from linkhold.config.settings import Role
from linkhold.config.uplink_contradictions import uplink_contradictions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.schema import Key
    from linkhold.config.settings import Settings


RTO_MAX_LEAST_MS = 1000


def contradictions(settings: Settings) -> Iterator[Finding]:
    """Yield every pair of settings that disagree."""
    yield from _policy(settings)
    yield from _ways_out(settings)
    yield from _brokers(settings)
    yield from bond_contradictions(settings)
    yield from uplink_contradictions(settings)
    yield from path_contradictions(settings)
    yield from power_contradictions(settings)
    yield from _busy(settings)


def _busy(settings: Settings) -> Iterator[Finding]:
    """The kernel takes no less than a second (ipv4_net_table in net/ipv4/sysctl_net_ipv4.c)."""
    longest_ms = settings.keepalive.busy.tcp_rto_max_ms
    if 0 < longest_ms < RTO_MAX_LEAST_MS:
        text = f"{longest_ms} is too small; allowed: 0 (as it is), or {RTO_MAX_LEAST_MS} to 120000"
        yield Finding(("keepalive", "busy", "tcp_rto_max_ms"), text)


def _policy(settings: Settings) -> Iterator[Finding]:
    policy = settings.policy
    if policy.flap_window_s < policy.flap_quiet_s:
        window, quiet = plain(policy.flap_window_s), plain(policy.flap_quiet_s)
        yield Finding(
            ("policy", "flap_window_s"),
            f"{window} is shorter than flap_quiet_s, {quiet}; allowed: at least flap_quiet_s",
            ("policy", "flap_quiet_s"),
        )


def _ways_out(settings: Settings) -> Iterator[Finding]:
    names: dict[str, int] = {}
    targets: dict[tuple[str, str], int] = {}
    for number, way in enumerate(settings.ways_out):
        at: Key = ("ways_out", number)
        first = names.setdefault(way.name, number)
        if first != number:
            text = f"{shown(way.name)} is given twice; allowed: a name once"
            yield Finding((*at, "name"), text, ("ways_out", first, "name"))
        first = targets.setdefault((way.link, way.target), number)
        if first != number:
            text = f"{way.target} over {way.link} is given twice; allowed: once"
            yield Finding((*at, "target"), text, ("ways_out", first, "target"))
        link = settings.links.get(way.link)
        if link is not None and link.role is Role.IGNORE:
            text = f"{way.link} has the role ignore; allowed: a link that is watched"
            yield Finding((*at, "link"), text, ("links", way.link, "role"))


def _brokers(settings: Settings) -> Iterator[Finding]:
    seen: dict[tuple[str, int], int] = {}
    for number, broker in enumerate(settings.mqtt.fleet):
        at: Key = ("mqtt", "fleet", number)
        first = seen.setdefault((broker.host.lower().rstrip("."), broker.tcp_port), number)
        if first != number:
            text = f"{broker.host} port {broker.tcp_port} is given twice; allowed: a broker once"
            yield Finding((*at, "host"), text, ("mqtt", "fleet", first, "host"))
        yield from credentials(broker, at)
