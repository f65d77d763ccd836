"""The configuration as frozen dataclasses: every key, its default, its meaning and its bounds.

This table drives the checks, the printed default file and the README. A key is a field; its
``metadata`` holds ``help`` (one line) and the bounds or choices that :mod:`linkhold.config`
checks. Units are part of a key's name.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- typing.get_type_hints() looks it up
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Mode(str, Enum):
    """Whether the agent may change the host."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


class Role(str, Enum):
    """What a named link is for."""

    AUTO = "auto"
    FABRIC = "fabric"
    IGNORE = "ignore"


def option(default: Any, help_: str, **bounds: Any) -> Any:
    """Return a dataclass field with its help text and its bounds.

    Bounds: ``least``/``most`` for numbers (``most`` also for the length of a list or mapping),
    ``safe=True`` for one MQTT topic level, ``item`` for what a list or mapping holds (a
    dataclass), ``text=True`` for text that must be given, and for text of a certain form
    ``ip``, ``host``, ``interface`` and ``path``. ``example`` is what the default file shows.
    """
    metadata = {"help": help_, **bounds}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """One entry of ``links:``; the key is the interface's name."""

    role: Role = option(Role.AUTO, "what it is for; the loss of a fabric link degrades the node")
    expected: bool = option(False, "alert also when it was never seen up")


@dataclass(frozen=True, slots=True)
class WayOutSettings:
    """One entry of ``ways_out:`` for fabrics without a default route."""

    name: str = option("", "name shown to people", text=True, example="storage")
    link: str = option(
        "", "interface the target is reached by", text=True, interface=True, example="eth1"
    )
    target: str = option(
        "", "IP address that stands for the way out", text=True, ip=True, example="192.0.2.1"
    )


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of one broker; paths of PEM files."""

    ca: str = option(
        "", "CA certificate; empty: the system's CAs", path=True, example="/etc/linkhold/ca.pem"
    )
    cert: str = option(
        "", "client certificate; its CN names the node", path=True, example="/etc/linkhold/node.pem"
    )
    key: str = option("", "client key", path=True, example="/etc/linkhold/node.key")


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """One broker of the fleet, tried in order."""

    host: str = option("", "name or address", text=True, host=True, example="broker.example.org")
    port: int = option(0, "TCP port; 0 means 8883 with tls and 1883 without", least=0, most=65535)
    tls: TlsSettings | None = option(None, "use TLS; {} for the system's CAs", item=TlsSettings)
    username: str = option("", "user name, where the broker wants one", example="linkhold")
    password_file: str = option(
        "", "file with the password, on one line", path=True, example="/etc/linkhold/password"
    )

    @property
    def tcp_port(self) -> int:
        """The port to connect to, the default filled in."""
        return self.port or (8883 if self.tls is not None else 1883)


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """Leg A (the node's own broker) and leg B (the fleet)."""

    local: bool = option(True, "run a broker on this node for the training processes")
    fleet: tuple[BrokerSettings, ...] = option(
        (), "brokers of the fleet, in order of preference", item=BrokerSettings, most=16
    )
    keepalive_s: int = option(10, "MQTT keepalive", least=5, most=30)
    connect_jitter_s: float = option(
        5.0,
        "each connect waits a random time up to this, so that a fleet does not storm",
        least=0,
        most=120,
    )


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """When a state becomes advice for the training processes."""

    settle_s: float = option(2.0, "a network that is down this long holds", least=0, most=60)
    resume_s: float = option(10.0, "uploads go again after this long up", least=0, most=600)
    flap_downs: int = option(
        3, "this many losses within flap_window_s are flapping", least=2, most=100
    )
    flap_window_s: float = option(
        600.0, "the time in which losses are counted", least=10, most=86400
    )
    flap_quiet_s: float = option(
        60.0, "flapping holds uploads until this long without a loss", least=1, most=3600
    )
    mains_back_s: float = option(30.0, "mains count as back after this long", least=0, most=3600)
    save_time_s: float = option(60.0, "how long a checkpoint takes here", least=1, most=7200)


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """When a condition becomes an alert for people."""

    fire_after_s: float = option(3.0, "a fault lasts this long before it alerts", least=0, most=600)
    close_after_s: float = option(
        30.0, "a fault is gone this long before its alert closes", least=0, most=3600
    )


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    """The history of events on disk."""

    max_events: int = option(100_000, "events kept at most", least=100, most=10_000_000)
    max_bytes: int = option(
        200_000_000, "bytes of events kept at most", least=1_000_000, most=100_000_000_000
    )
    keep_days: float = option(
        7.0, "delivered events are kept this long for replay", least=0.01, most=365
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration. An empty file is valid: this is it."""

    site: str = option("default", "name of the site, one MQTT topic level", safe=True)
    node: str = option("", "name of the node; empty: the certificate's CN or host name", safe=True)
    mode: Mode = option(Mode.OBSERVE, "whether faults are only reported or also repaired")
    links: Mapping[str, LinkSettings] = option(
        dict,
        "interfaces to treat in a special way, by name",
        item=LinkSettings,
        most=1024,
        example="eth2",
    )
    ways_out: tuple[WayOutSettings, ...] = option(
        (), "besides the default routes, what must be reachable", item=WayOutSettings, most=64
    )
    mqtt: MqttSettings = option(MqttSettings, "the two legs")
    policy: PolicySettings = option(PolicySettings, "when training holds")
    alerts: AlertSettings = option(AlertSettings, "when people are told")
    outbox: OutboxSettings = option(OutboxSettings, "history on disk")
