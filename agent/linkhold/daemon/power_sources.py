"""The sensors of power that a configuration asks for, with what they need to be let in."""

from __future__ import annotations

import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.config.access import first_line, password_of, tls_of
from linkhold.mqtt import Connection
from linkhold.sensors.mqtt_power import Broker, MqttPowerSensor
from linkhold.sensors.nut import NutSensor, NutServer
from linkhold.sensors.power_supply import ROOT, PowerSupplySensor
from linkhold.threads import in_thread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from linkhold.config.brokers import BrokerSettings, TlsSettings
    from linkhold.config.power import PowerSettings, SensorSettings, UpsSettings
    from linkhold.config.settings import Settings
    from linkhold.decide.power.values import Said
    from linkhold.sensors.power_supply import Uevents

USER_TIMEOUT_MS = 3000
KEEPALIVE_S = 30
"""Nothing hangs on noticing sooner that sensors cannot be heard: that is unknown, not dark."""


@dataclass(frozen=True, slots=True)
class KernelPlace:
    """Where the kernel's supplies are, and its events; for tests."""

    root: Path = ROOT
    uevents: Uevents | None = None


@dataclass(frozen=True, slots=True)
class Upsd:
    """One upsd: which of its UPSes is shown under which names, and how it is logged in to."""

    names: Mapping[str, tuple[str, ...]]
    asked: UpsSettings
    poll_s: float

    def sensor(self) -> NutSensor:
        """Return the sensor. Blocking: reads files. Raises OSError and ValueError."""
        asked = self.asked
        return NutSensor(
            NutServer(
                asked.host,
                asked.port,
                tuple(self.names),
                user=asked.user,
                password=first_line(Path(asked.password_file)) if asked.user else "",
                login=asked.login,
                tls=_context(asked.tls) if asked.tls is not None else None,
                poll_s=self.poll_s,
            ),
            in_thread,
        )


def upsds(power: PowerSettings) -> Iterator[Upsd]:
    """Yield each upsd once: one connection serves all UPSes that are asked for in one way."""
    groups: dict[object, list[UpsSettings]] = {}
    for ups in power.nut:
        way = (ups.host, ups.port, ups.user, ups.password_file, ups.login, ups.tls)
        groups.setdefault(way, []).append(ups)
    for found in groups.values():
        names: dict[str, tuple[str, ...]] = {}
        for ups in found:
            names[ups.ups] = (*names.get(ups.ups, ()), ups.name)
        yield Upsd(names, found[0], power.poll)


def kernel_sensor(place: KernelPlace) -> PowerSupplySensor:
    """Return the sensor of the kernel's own supplies."""
    return PowerSupplySensor(place.root, place.uevents, in_thread)


def mqtt_sensors(
    settings: Settings, loop: asyncio.AbstractEventLoop, report: Callable[[Said], object]
) -> Iterator[MqttPowerSensor]:
    """Yield a sensor for the fleet's brokers and one for each other broker."""
    groups: dict[BrokerSettings | None, list[SensorSettings]] = {}
    for one in settings.power.mqtt:
        groups.setdefault(one.broker, []).append(one)
    for own, sensors in groups.items():
        brokers = settings.mqtt.fleet if own is None else (own,)
        yield MqttPowerSensor(
            [_broker(one) for one in brokers],
            sensors,
            loop,
            report,
            spread_s=settings.mqtt.connect_jitter_s,
            tick_s=KEEPALIVE_S / 4,
        )


def _broker(settings: BrokerSettings) -> Broker:
    def connect() -> Connection:
        # A name of its own for each: a second client of one name would throw the first out.
        connection = Connection(
            f"linkhold-power-{secrets.token_hex(6)}",
            keepalive_s=KEEPALIVE_S,
            username=settings.username or None,
            password=password_of(settings),
            tls=tls_of(settings),
            user_timeout_ms=USER_TIMEOUT_MS,
        )
        connection.open_tcp(settings.host, settings.tcp_port)
        return connection

    return Broker(f"{settings.host}:{settings.tcp_port}", connect)


def _context(tls: TlsSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca or None)
    if tls.cert:
        # An encrypted key would ask for its password on the terminal, or wait for it.
        context.load_cert_chain(tls.cert, tls.key or None, password=lambda: b"-")
    return context
