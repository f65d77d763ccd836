"""What a diagnosis asks, and from where it has what is not its own to ask."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.config.forms import form_problem
from linkhold.config.paths import MetadataProbe
from linkhold.model import LinkholdError
from linkhold.model.probes import without_query
from linkhold.sensors.kmsg import DEVICE
from linkhold.survey import training
from linkhold.survey.files import Reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.config.settings import Settings
    from linkhold.model.diagnosis_facts import AgentFacts, ClockFacts, KeepaliveFacts
    from linkhold.model.jobs import Training

PORTS = range(1, 1 << 16)
PORTS_OF = {"http": 80, "https": 443}
BROADCAST, IPV6 = "255.255.255.255", 6


@dataclass(frozen=True, slots=True)
class Aim:
    """One target: ``how`` is ``icmp``, ``tcp`` or ``http`` (with ``url``); ``port`` 0 for none."""

    name: str
    how: str
    host: str
    port: int = 0
    url: str = ""
    link: str = ""
    storage: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What to ask. Nobody but gateways, resolvers and the owner's ``aims`` is asked.

    ``names`` are asked of each resolver; none: the root. ``vendor`` names the cloud whose metadata
    service is asked, None finds it out; ``any_cloud`` asks all that are known where it is none.
    ``ignored`` links are left out. ``any_facility`` is for tests: it takes what user space writes
    to the kernel's log.
    """

    aims: tuple[Aim, ...] = ()
    names: tuple[str, ...] = ()
    since_s: float = 3600.0
    metadata: bool = True
    vendor: str | None = None
    any_cloud: bool = False
    ignored: frozenset[str] = frozenset()
    kernel_log: Path = DEVICE
    any_facility: bool = False


def _find_training() -> Training:
    return training.find(Reader(Path("/")))


@dataclass(frozen=True, slots=True)
class Sources:
    """Where what belongs to other parts comes from; None: there is nothing of that sort here.

    All are blocking and are called in threads.
    """

    reader: Reader = field(default_factory=lambda: Reader(Path("/")))
    training: Callable[[], Training] = _find_training
    keepalive: Callable[[], KeepaliveFacts] | None = None
    clock: Callable[[], ClockFacts] | None = None
    agent: Callable[[], AgentFacts] | None = None


def plan_of(settings: Settings, targets: tuple[str, ...] = (), since_s: float = 3600.0) -> Plan:
    """Return what the configuration and the caller want asked.

    ``targets`` are of the caller: ``host``, ``host:port`` or a URL. Raises :class:`LinkholdError`
    for one that is none of these.
    """
    aims = [aim_of(target) for target in targets]
    for entry in settings.paths.targets:
        one = aim_of(entry.http or entry.tcp or entry.ping)
        how = "icmp" if entry.ping else one.how
        aims.append(
            Aim(entry.name or one.name, how, one.host, one.port, one.url, entry.link, entry.storage)
        )
    aims += [Aim(way.name, "icmp", way.target, link=way.link) for way in settings.ways_out]
    aims += [
        Aim(f"{target} by {uplink.link}", "icmp", target, link=uplink.link)
        for uplink in settings.uplinks
        for target in uplink.targets
    ]
    return Plan(
        tuple(dict.fromkeys(aims)),
        settings.paths.dns.names,
        since_s,
        metadata=settings.paths.metadata is not MetadataProbe.NEVER,
        any_cloud=settings.paths.metadata is MetadataProbe.ALWAYS,
        ignored=frozenset(n for n, one in settings.links.items() if one.role.value == "ignore"),
    )


def aim_of(text: str) -> Aim:
    """Return the target that ``text`` names: a URL, ``host:port``, ``[address]:port`` or a host."""
    scheme, there, rest = text.partition("://")
    if there:
        return _of_url(text, scheme, rest)
    host, port = _host_and_port(text)
    if form_problem("host", host):
        raise LinkholdError(
            f"--target {text!r} is no target; allowed: host, host:port or http(s)://..."
        )
    _check_literal(text, host)
    return Aim(text, "tcp" if port else "icmp", host, port)


def _check_literal(text: str, host: str) -> None:
    """Refuse addresses that are not those of one host, and link-local ones without their link."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return
    if address.is_multicast or address.is_unspecified or host == BROADCAST:
        raise LinkholdError(f"--target {text!r} is the address of no single host; name one")
    if address.version == IPV6 and address.is_link_local and "%" not in host:
        raise LinkholdError(f"--target {text!r} is the same on every link; name one: {host}%eth0")


def _of_url(text: str, scheme: str, rest: str) -> Aim:
    if scheme not in PORTS_OF:
        raise LinkholdError(f"--target {text!r}: {scheme} is not asked; allowed: http, https")
    host, port = _host_and_port(rest.split("/", 1)[0].split("?", 1)[0])
    if form_problem("host", host):
        raise LinkholdError(f"--target {text!r} names no host; allowed: http(s)://host[:port]/...")
    _check_literal(text, host)
    return Aim(without_query(text), "http", host, port or PORTS_OF[scheme], text)


def _host_and_port(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, _, after = text[1:].partition("]")
        port = after.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        return text, 0
    if not port:
        return host, 0
    if not port.isdecimal() or int(port) not in PORTS:
        raise LinkholdError(f"--target {text!r}: {port!r} is no port; allowed: 1 to 65535")
    return host, int(port)
