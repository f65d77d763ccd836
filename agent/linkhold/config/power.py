"""The keys of ``power:`` and ``notices:``: who tells of an end of power or of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from linkhold.config.brokers import BrokerSettings, TlsSettings
from linkhold.config.option import option
from linkhold.model.power_sources import Dialect


class Watch(str, Enum):
    """Which part of a device tells of mains, where it has several."""

    ANY = "any"
    INPUT = "input"
    OUTLET = "outlet"


class Cloud(str, Enum):
    """Whose metadata service is asked for notices."""

    AUTO = "auto"
    NEVER = "never"
    AWS = "aws"
    GCP = "gcp"
    AZURE = "azure"
    ALIBABA = "alibaba"
    TENCENT = "tencent"


@dataclass(frozen=True, slots=True)
class UpsSettings:
    """One entry of ``nut:``, a UPS that feeds this node, as its upsd tells of it."""

    name: str = option("", "name shown to people", text=True, example="ups-a")
    host: str = option("127.0.0.1", "where upsd listens: name or address", host=True)
    port: int = option(3493, "its TCP port", least=1, most=65535)
    ups: str = option(
        "", "the UPS's name in upsd (upsc -l HOST lists them)", text=True, word=True, example="ups"
    )
    user: str = option("", "user of upsd.users, where upsd wants one", word=True)
    password_file: str = option("", "file with the password, on one line", path=True)
    login: bool = option(
        False, "tell upsd that this node hangs on the UPS: the primary waits for it at a shutdown"
    )
    tls: TlsSettings | None = option(
        None, "use STARTTLS; {} for the system's CAs; without it all goes in the clear",
        item=TlsSettings,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SensorSettings:
    """One entry of ``mqtt:``, a thing that watches mains and tells it on MQTT."""

    name: str = option("", "name shown to people", text=True, example="rack1-mains")
    topics: tuple[str, ...] = option(
        (),
        "topics that it speaks on, + and # allowed; commands in them are not read",
        text=True,
        topic=True,
        least=1,
        most=8,
        example=("site/rack1/mains/state",),
    )
    dialect: Dialect = option(Dialect.GENERIC, "how it speaks, as in linkhold explain payload")
    status_topic: str = option(
        "", "generic: topic of its will, which says online or offline", topic=True,
        example="site/rack1/mains/status",
    )  # fmt: skip
    path: str = option("", "generic: where the value is in its JSON, such as data.mains.present")
    pattern: str = option("", "generic: a regular expression whose first group is the value")
    present: tuple[str, ...] = option(
        (), "generic: words for mains that are there; empty: on, true, 1, online ...", most=16
    )
    absent: tuple[str, ...] = option(
        (), "generic: words for mains that are gone; empty: off, false, 0, lost ...", most=16
    )
    invert: bool = option(False, "generic: exchange both, for a relay that opens when mains come")
    watch: Watch = option(Watch.ANY, "which part of the device tells of mains")
    channel: str = option("", "its number or name, where the device has several")
    max_age: float = option(
        600.0,
        "silent for longer, nothing is known of it; 0: its will tells, for one that speaks only "
        "on change",
        duration=True,
        least=0,
        most=86400,
    )
    broker: BrokerSettings | None = option(
        None, "the broker it speaks to; without: those of mqtt.fleet, in order",
        item=BrokerSettings,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PowerSettings:
    """Who tells where the node's power comes from, and how they are counted."""

    supplies_needed: int = option(
        1, "of the UPSes below, so many must live for the node to live", least=1, most=8
    )
    sensors_needed: int = option(
        2, "so many sensors must agree before mains count as gone for certain", least=2, most=64
    )
    kernel: bool = option(True, "read /sys/class/power_supply, where the kernel knows a supply")
    poll: float = option(
        3.0, "how often upsd is asked", duration=True, least=0.5, most=60
    )  # fmt: skip
    nut: tuple[UpsSettings, ...] = option(
        (), "UPSes that feed this node, by Network UPS Tools", item=UpsSettings, most=8
    )
    mqtt: tuple[SensorSettings, ...] = option(
        (), "sensors of mains on MQTT; one alone never stops training", item=SensorSettings, most=64
    )


@dataclass(frozen=True, slots=True)
class NoticeSettings:
    """Who tells that this machine will be taken away or paused."""

    cloud: Cloud = option(
        Cloud.AUTO, "whose metadata service is asked; auto: of the cloud that this machine is of"
    )
    logind: bool = option(
        True, "hear of shutdowns of this machine, and hold them up while training saves"
    )
