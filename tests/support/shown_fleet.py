"""A fleet as its broker shows it: retained states of many nodes on a real mosquitto."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from linkhold.wire import dumps, rfc3339
from support.world import World, bonded, single

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.broker import Broker

SITE = "muc"


def _documents() -> dict[str, dict[str, Any]]:
    found = {}
    for kind in ("ok", "degraded", "down"):
        world = World()
        world.look(single() if kind == "down" else bonded(), after_s=1)
        if kind == "degraded":
            world.look(bonded(second=False), after_s=100)
        if kind == "down":
            world.look(single(up=False), after_s=100)
        world.sleep(30)
        found[kind] = world.document()
    return found


class ShownFleet:
    """Publishes what nodes would; ``documents`` are real states: ok, degraded and down."""

    def __init__(self, broker: Broker) -> None:
        self.documents = _documents()
        self._epoch = 100
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.max_inflight_messages_set(500)
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()

    def show(
        self, names: Iterable[str], kind: str = "ok", status: str = "online", planned: str = ""
    ) -> None:
        """Publish presence and state of nodes, and wait until the broker has them."""
        told = None
        for name in names:
            self._epoch += 1
            now = {"at": rfc3339(time.time()), "epoch": self._epoch}
            state = {**self.documents[kind], "site": SITE, "node": name, **now}
            birth = {"started": "2026-01-01T00:00:00.000Z", "planned_stop": planned or None}
            prefix = f"linkhold/v1/{SITE}/{name}"
            for leaf, payload in (
                ("birth", dumps(birth)),
                ("state", json.dumps(state).encode()),
                ("status", status.encode()),
            ):
                told = self._client.publish(f"{prefix}/{leaf}", payload, 1, retain=True)
        if told is not None:
            told.wait_for_publish(30)

    def close(self) -> None:
        """Disconnect; what was published stays."""
        self._client.disconnect()
        self._client.loop_stop()
