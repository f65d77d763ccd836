"""Inside a guest where linkhold is a service: what systemd and the agent say of it."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.topology import wait_until

AGENT, BROKER = "linkhold.service", "linkhold-broker.service"
STATE = Path("/run/linkhold/state.json")
CONFIG = Path("/etc/linkhold/linkhold.yaml")


def say(*command: str) -> str:
    """Run a command of the guest and return what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


def shown(unit: str, name: str) -> str:
    """Return a property of a unit."""
    return say("systemctl", "show", "-P", name, unit)


def pid(unit: str) -> int:
    """Return the main process of a unit, 0 where it has none."""
    return int(shown(unit, "MainPID") or 0)


def state() -> dict[str, Any]:
    """Return the state file, empty while there is none."""
    with suppress(OSError):
        document = json.loads(STATE.read_bytes())
        assert isinstance(document, dict)
        return document
    return {}


def serves() -> bool:
    """Tell whether the agent runs, its state is fresh and trainers can hear it."""
    now = state()
    if not now or shown(AGENT, "ActiveState") != "active":
        return False
    fresh = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - now["mono_ns"] < 7e9
    return bool(fresh and now["detail"]["agent"]["leg_a"] == "up")


def await_service() -> None:
    """Wait until the agent serves, or say what systemd and the journal know."""
    try:
        wait_until(serves, "the agent serves", timeout_s=40)
    except TimeoutError as error:
        status = say("systemctl", "status", "--no-pager", "-n30", AGENT, BROKER)
        raise AssertionError(f"{error}; {state()}; {status}") from None


def events() -> list[dict[str, Any]]:
    """Return all recorded events, oldest first."""
    lines = say("linkhold", "events", "--since", "1h", "--json").splitlines()
    return [json.loads(line) for line in lines]


def count(kind: str) -> int:
    """Return how many events of a type there are."""
    return sum(event["type"] == kind for event in events())


def configure(text: str) -> None:
    """Write the configuration and have the service read it."""
    before = count("agent.config_reloaded")
    CONFIG.write_text(text, encoding="ascii")
    subprocess.run(["systemctl", "reload", "linkhold"], check=True)
    wait_until(lambda: count("agent.config_reloaded") > before, "reloaded", timeout_s=20)


def link(nic: str) -> dict[str, Any]:
    """Return what the state says of a NIC, empty for nothing."""
    found = state()["detail"]["links"].get(nic, {})
    assert isinstance(found, dict)
    return found
