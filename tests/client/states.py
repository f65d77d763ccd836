"""States made by hand, and an agent that is nothing but a publisher of them."""

from __future__ import annotations

import json
import secrets
import time
from pathlib import Path
from typing import Any

from linkhold import paths
from linkhold.model.errors import BrokerError
from linkhold.mqtt import Acknowledged, Connected, Connection, Lost
from linkhold.wire import StateView, parse_state

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
TOPIC = "linkhold/v1/site/node/state"


def document(
    *,
    epoch: int = 1,
    session: str = "one",
    session_ns: int = 1,
    mono_ns: int | None = None,
    boot_id: str = BOOT_ID,
    network: str = "ok",
    power: str = "ok",
    cause: tuple[str, ...] = (),
    since: str | None = None,
    **advice: Any,
) -> dict[str, Any]:
    """Return a state document; ``advice`` overrides fields of the advice."""
    return {
        "schema": 1,
        "site": "site",
        "node": "node",
        "boot_id": boot_id,
        "session": session,
        "session_mono_ns": session_ns,
        "epoch": epoch,
        "mono_ns": time.monotonic_ns() if mono_ns is None else mono_ns,
        "network": network,
        "power": power,
        "cause": list(cause),
        "since": since,
        "advice": {"uploads": "go", "training": "go", **advice},
    }


def view(**fields: Any) -> StateView:
    """Return the parsed state of :func:`document`."""
    return parse_state(json.dumps(document(**fields)).encode())


def event(content: dict[str, Any]) -> bytes:
    """Wrap a document as it is published."""
    return json.dumps({"specversion": "1.0", "type": "linkhold.state", "data": content}).encode()


class HandAgent:
    """Says what a test tells it to say, by file and by broker."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.epoch = 0

    def say(self, *, by_file: bool = True, by_broker: bool = True, **fields: Any) -> None:
        """Publish one more state of this session."""
        self.epoch += 1
        content = document(epoch=self.epoch, **fields)
        if by_file:
            self.write(json.dumps(content).encode())
        if by_broker:
            self.publish(event(content))

    def write(self, content: bytes) -> None:
        """Replace the state file atomically."""
        draft = self.run_dir / "draft"
        draft.write_bytes(content)
        draft.replace(self.run_dir / paths.STATE_FILE)

    def publish(self, payload: bytes) -> None:
        """Publish a retained payload and wait until the broker has it.

        A broker that has just started may hang up on its first client: as the agent, try again.
        """
        until_s = time.monotonic() + 10
        while not self._published(payload, until_s):
            if time.monotonic() > until_s:
                raise AssertionError("the broker did not take the state")
            time.sleep(0.05)

    def _published(self, payload: bytes, until_s: float) -> bool:
        connection = Connection(f"agent-{secrets.token_hex(4)}", unix=True)
        try:
            connection.open_unix(self.run_dir / paths.BROKER_SOCKET)
        except BrokerError:  # its socket is there before it listens
            return False
        until_s = min(until_s, time.monotonic() + 3)
        while time.monotonic() < until_s:
            for notice in connection.service(0.1):
                if isinstance(notice, Connected):
                    connection.publish(TOPIC, payload, qos=1, retain=True)
                if isinstance(notice, Acknowledged):
                    connection.close()
                    return True
                if isinstance(notice, Lost):
                    return False
        connection.abandon()
        return False


HOLD: dict[str, Any] = {
    "network": "down",
    "training": "hold",
    "uploads": "hold",
    "cause": ("eth0 lost carrier",),
}
"""Fields of a state in which everything is on hold."""
