"""The keys of ``paths:``: what beyond this node must answer, and how often it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from linkhold.config.option import option


class MetadataProbe(str, Enum):
    """Whether the cloud's metadata service is asked."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class PathTarget:
    """One entry of ``targets:``, asked in exactly one of three ways."""

    name: str = option("", "name shown to people", text=True, example="checkpoints")
    ping: str = option("", "asked by an ICMP echo", host=True)
    tcp: str = option(
        "", "asked by a TCP connect, as host:port", endpoint=True, example="192.0.2.10:2049"
    )
    http: str = option("", "asked by a GET of this URL; no proxy is used", url=True)
    link: str = option(
        "", "interface to ask through; empty: the routing table chooses", interface=True
    )
    storage: bool = option(False, "uploads go there: its loss holds uploads")


@dataclass(frozen=True, slots=True)
class DnsSettings:
    """What the resolvers of this node are asked for."""

    names: tuple[str, ...] = option(
        (),
        "complete names that must be found, asked of each resolver; empty: the root, which any "
        "resolver knows",
        host=True,
        most=8,
    )
    watch: bool = option(True, "the resolvers of /etc/resolv.conf are asked all day as well")


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Probes of gateways, targets, resolvers and the metadata service."""

    watch: bool = option(
        True,
        "the agent asks all day: `ok` then needs an answer; false: only `linkhold diagnose` asks",
    )
    targets: tuple[PathTarget, ...] = option(
        (),
        "what is asked beside the gateways and resolvers; nobody else is",
        item=PathTarget,
        most=32,
        more=("{name: api, http: 'https://api.example.org/', link: eth1}",),
    )
    dns: DnsSettings = option(DnsSettings, "resolvers, each asked by itself")
    interval_ok: float = option(
        10.0, "time between probes while all is well", duration=True, least=1, most=3600
    )
    interval_trouble: float = option(
        1.0, "the same to the gateways while something is wrong", duration=True, least=0.2, most=60
    )
    timeout: float = option(1.0, "how long an answer may take", duration=True, least=0.1, most=30)
    down_after: int = option(
        3, "something is dead after so many probes without an answer", least=2, most=20
    )
    metadata: MetadataProbe = option(
        MetadataProbe.AUTO,
        "the cloud's metadata service; auto: asked on a cloud machine; always: asked on any, all "
        "that are known; never: nothing is sent to one",
    )
    metadata_interval: float = option(
        300.0, "time between questions to the metadata service", duration=True, least=1, most=86400
    )
