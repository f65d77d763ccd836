"""Power sensors on a real mosquitto: floods, brokers that refuse or are away, commands."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.config import BrokerSettings
from linkhold.config.power import SensorSettings
from linkhold.config.settings import MqttSettings, Settings
from linkhold.daemon.power_sources import mqtt_sensors
from linkhold.decide.power.meaning import What
from linkhold.mqtt import Subscribed
from linkhold.sensors.mqtt_power import MAX_WAITING, RATE, MqttPowerSensor
from support.broker import free_port

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from linkhold.config.power import PowerSettings
    from linkhold.decide.power import Said
    from support.broker import Broker, Collector

SENSOR = SensorSettings("s", ("site/+/mains",), status_topic="site/r/status")


class Heard:
    """A listener, what it told, and a wait for it."""

    def __init__(self) -> None:
        self.all: list[Said] = []
        self.sensor: MqttPowerSensor | None = None

    async def until(self, what: What) -> Said:
        """Return the newest word when it is this one, within 10 s."""
        end = time.monotonic() + 10
        while not self.all or self.all[-1].meaning.what is not what:
            assert time.monotonic() < end, self.all
            await asyncio.sleep(0.01)
        return self.all[-1]


def listen(settings: Settings, scene: Callable[[Heard], Awaitable[None]]) -> None:
    """Run the listener of the fleet's brokers while ``scene`` plays."""

    async def play() -> None:
        heard = Heard()
        (heard.sensor,) = mqtt_sensors(settings, asyncio.get_running_loop(), heard.all.append)
        heard.sensor.start()
        try:
            await scene(heard)
        finally:
            heard.sensor.stop()
            heard.sensor._thread.join(10)

    asyncio.run(play())


def settings(power: PowerSettings, *ports: int, **login: Any) -> Settings:
    """Return settings whose fleet is on these ports."""
    fleet = tuple(BrokerSettings("127.0.0.1", port, **login) for port in ports)
    return Settings(mqtt=MqttSettings(fleet=fleet, connect_jitter_s=0.0), power=power)


@pytest.fixture
def power() -> PowerSettings:
    """One sensor on the fleet's broker."""
    from linkhold.config.power import PowerSettings

    return PowerSettings(mqtt=(SENSOR,))


def test_a_flood_costs_the_loop_nothing(
    brokers: Callable[..., Broker], collect: Callable[..., Collector], power: PowerSettings
) -> None:
    """Of thousands of messages a hundred a second are read, in bunches; the last word counts."""
    broker = brokers().start()
    esp = collect(broker.port, "nothing")

    async def scene(heard: Heard) -> None:
        esp.publish("site/r/status", b"online", retain=True)
        await heard.until(What.NONE)
        began = time.monotonic()
        for _ in range(3000):
            esp.client.publish("site/r/mains", b"1", 0)
        await asyncio.sleep(1.5)
        assert heard.sensor is not None
        read = heard.sensor.counters["power_mqtt_messages"]
        assert RATE / 2 < read <= RATE * (2 + time.monotonic() - began)
        assert len(heard.all) <= read + MAX_WAITING

    listen(settings(power, broker.port), scene)


def test_a_broker_that_is_away_is_passed_over_and_a_refusal_said(
    brokers: Callable[..., Broker], collect: Callable[..., Collector], power: PowerSettings
) -> None:
    """The next broker of the list is used; where none takes us, every sensor says why."""
    broker = brokers().start()
    collect(broker.port, "nothing").publish("site/r/mains", b"0", retain=True)

    async def second(heard: Heard) -> None:
        said = await heard.until(What.LOST)
        assert said.retained

    async def nobody(heard: Heard) -> None:
        said = await heard.until(What.COMM_LOST)
        assert "Connection refused" in said.meaning.why

    async def refused(heard: Heard) -> None:
        said = await heard.until(What.COMM_LOST)
        assert "refused" in said.meaning.why
        assert "secret" not in said.meaning.why

    listen(settings(power, free_port(), broker.port), second)
    listen(settings(power, free_port()), nobody)
    closed = brokers(anonymous=False).start()
    listen(settings(power, closed.port), refused)


def test_a_topic_that_the_broker_refuses_is_said(power: PowerSettings) -> None:
    """A SUBACK of 0x87 makes the sensors of that topic unknown, with the reason, and no other."""
    other = SensorSettings("o", ("other",))

    async def play() -> list[Said]:
        heard: list[Said] = []
        loop = asyncio.get_running_loop()
        sensor = MqttPowerSensor((), (SENSOR, other), loop, heard.append)
        sensor._handle(Subscribed((0, 0x87, 0)), ["other", "site/+/mains", "site/r/status"])
        await asyncio.sleep(0)
        sensor._wake_read.close()
        sensor._wake_write.close()
        return heard

    (said,) = asyncio.run(play())
    assert (said.source, said.meaning.what) == ("s", What.COMM_LOST)
    assert "refuses the topic site/+/mains" in said.meaning.why
