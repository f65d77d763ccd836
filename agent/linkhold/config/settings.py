"""The configuration as frozen dataclasses: every key, its default, its meaning and its bounds.

This table drives the checks, the printed default file and docs/configuration.md. A key is a
field; its ``metadata`` holds ``help`` (one line) and the bounds or choices that
:mod:`linkhold.config` checks. Units are part of a key's name.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 -- typing.get_type_hints() looks it up
from dataclasses import dataclass
from enum import Enum

from linkhold.config.brokers import BrokerSettings
from linkhold.config.keepalive import KeepaliveSettings
from linkhold.config.metrics import MetricsSettings
from linkhold.config.option import option
from linkhold.config.paths import PathSettings
from linkhold.config.power import NoticeSettings, PowerSettings


class Mode(str, Enum):
    """Whether the agent may change the host."""

    OBSERVE = "observe"
    ENFORCE = "enforce"


class Role(str, Enum):
    """What a named link is for."""

    AUTO = "auto"
    FABRIC = "fabric"
    IGNORE = "ignore"


class Detect(str, Enum):
    """How the death of a path behind a live link is noticed."""

    PROBE = "probe"
    MII = "mii"


class MacPolicy(str, Enum):
    """What happens to MAC addresses at a failover (the kernel's ``fail_over_mac``)."""

    AUTO = "auto"
    NONE = "none"
    ACTIVE = "active"
    FOLLOW = "follow"


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
class BondSettings:
    """One entry of ``bonds:``, an active-backup bond that is wanted; the key is its name."""

    members: tuple[str, ...] = option(
        (),
        "its members, each by name, permanent MAC or bus path",
        text=True,
        member=True,
        least=1,
        most=8,
        example=("eth0", "eth1"),
    )
    primary: str = option(
        "", "the preferred member, as written there; empty: the first", member=True
    )
    detect: Detect = option(
        Detect.PROBE, "probe: also find dead switches behind live links; mii: carrier only"
    )
    targets: tuple[str, ...] = option(
        (),
        "IP addresses that show a path alive; empty: the gateways over this bond",
        ip=True,
        most=8,
        example=("192.0.2.1",),
    )
    miimon_ms: int = option(
        50,
        "how often the kernel looks at carrier",
        least=10,
        most=1000,
        too_small="less than 10 ms costs CPU only, and 0 would never notice a pulled cable",
        too_large="{} ms would notice a pulled cable after up to {seconds} s",
    )
    updelay_ms: int = option(
        0, "a returned member is used after this; a multiple of miimon_ms", least=0, most=60000
    )
    downdelay_ms: int = option(
        0, "a lost member is left after this; a multiple of miimon_ms", least=0, most=5000
    )
    mtu_bytes: int = option(0, "MTU; 0: as the NIC that carries now", least=0, most=65535)
    fail_over_mac: MacPolicy = option(
        MacPolicy.AUTO, "none: one MAC for all; active: the active member's, for VFs and IPoIB"
    )
    peer_notifications: int = option(
        3, "gratuitous ARP and unsolicited NA sent at a failover", least=0, most=255
    )
    peer_notif_delay_ms: int = option(
        100, "time between them; a multiple of miimon_ms", least=0, most=300_000
    )
    moves_per_minute: int = option(
        4, "probes may move the active member this often, then it stays", least=1, most=60
    )
    confirm_after_s: float = option(
        10.0, "a change whose checks hold this long is confirmed by itself", least=2, most=3600
    )
    guard_s: float = option(
        60.0, "a change that is not confirmed within this is undone", least=20, most=3600
    )


@dataclass(frozen=True, slots=True)
class UplinkSettings:
    """One entry of ``uplinks:``, a line to the world that has a default route of its own."""

    link: str = option(
        "",
        "interface that its default route leads over",
        text=True,
        interface=True,
        example="bond0",
    )
    targets: tuple[str, ...] = option(
        (),
        "IP addresses beyond its gateway that show it alive, two or more and the same for all "
        "uplinks; empty: the gateway, which shows the first hop but not the internet",
        ip=True,
        most=8,
        example=("192.0.2.1", "198.51.100.1"),
    )
    metered: bool = option(False, "its traffic costs money: ask rarely until it is needed")


@dataclass(frozen=True, slots=True)
class UplinkPolicySettings:
    """When default traffic takes another uplink, and when it returns."""

    probe_interval_s: float = option(
        1.0, "time between the rounds of probes through each uplink", least=0.5, most=60
    )
    metered_interval_s: float = option(
        10.0, "the same for a metered one while it is not needed", least=0.5, most=3600
    )
    down_after: int = option(
        3, "an uplink is dead after so many rounds without an answer", least=2, most=20
    )
    up_after_s: float = option(
        30.0,
        "a better uplink is used again after answering this long; doubles when it flaps, up to 1 h",
        least=1,
        most=3600,
    )
    switches_per_hour: int = option(
        12, "at most so many switches, then the uplink in use stays", least=2, most=120
    )


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
    notice_lead_s: float = option(
        0.0,
        "an end that is hours away is acted on this long before; 0: two saves and 5 minutes",
        least=0,
        most=86400,
    )


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
    restore_on_stop: bool = option(
        False, "`systemctl stop linkhold` also takes back what linkhold changed on this host"
    )
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
    bonds: Mapping[str, BondSettings] = option(
        dict,
        "active-backup bonds that this node shall have; made by `linkhold bond apply`",
        item=BondSettings,
        keys="new_interface",
        most=16,
        example="bond0",
    )
    uplinks: tuple[UplinkSettings, ...] = option(
        (),
        "lines to the world in order of preference, such as bond0, then a USB or 4G NIC",
        item=UplinkSettings,
        most=8,
        more=("{link: usb0, targets: [192.0.2.1, 198.51.100.1], metered: true}",),
    )
    uplink_policy: UplinkPolicySettings = option(
        UplinkPolicySettings, "when default traffic takes another uplink"
    )
    keepalive: KeepaliveSettings = option(
        KeepaliveSettings, "how long TCP connections live without traffic, and through an outage"
    )
    paths: PathSettings = option(PathSettings, "what beyond this node must answer")
    power: PowerSettings = option(PowerSettings, "who tells where the node's power comes from")
    notices: NoticeSettings = option(
        NoticeSettings, "who tells that this machine will be taken away or paused"
    )
    mqtt: MqttSettings = option(MqttSettings, "the two legs")
    policy: PolicySettings = option(PolicySettings, "when training holds")
    alerts: AlertSettings = option(AlertSettings, "when people are told")
    outbox: OutboxSettings = option(OutboxSettings, "history on disk")
    metrics: MetricsSettings = option(MetricsSettings, "metrics for Prometheus")
