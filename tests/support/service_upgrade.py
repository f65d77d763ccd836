"""An upgrade of linkhold while links come and go, in a guest with systemd."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import installed
from support.broker import Broker, Collector
from support.lab import scenario
from support.service_scenes import BOND, BOND_OPTIONS, ENFORCE
from support.serviced import AGENT, BROKER, await_service, configure, events, link, pid, say, state
from support.topology import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.lab import Box
    from support.topology import TwoSwitches

CURRENT = Path("/opt/linkhold/current")
EVERY_S = 0.15
"""So often that the agent is at work with some event at any moment of its end."""


@scenario(timeout_s=240)
def is_upgraded(box: Box, wheel: str) -> dict[str, Any]:
    """Upgrade to another wheel while a member of a bond goes up and down all the while."""
    net = box.two_switches()
    fleet = Broker(Path("/tmp/fleet"))
    fleet.start()
    where = f"mqtt: {{connect_jitter_s: 0, fleet: [{{host: 127.0.0.1, port: {fleet.port}}}]}}\n"
    configure(ENFORCE + BOND + where)
    hears = Collector(fleet.port, "linkhold/v1/+/+/event/#", session="upgrade")
    answers = Collector(fleet.port, "linkhold/v1/+/+/diag/#")
    made = say("linkhold", "bond", "apply", "--yes")
    wait_until(lambda: net.carrier("bond0"), "carrier")
    miimon = BOND_OPTIONS / "miimon"
    miimon.write_text("200", encoding="ascii")
    wait_until(lambda: miimon.read_text().strip() == "50", f"repaired; {made}", timeout_s=40)
    wait_until(lambda: state()["detail"]["agent"]["leg_b"].startswith("up"), "fleet", timeout_s=20)
    known = {one["id"] for one in events()}
    before, broker, version = _bond(), pid(BROKER), CURRENT.readlink()
    with _flapping(net) as flaps:
        time.sleep(1)
        done = installed.setup(Path(wheel), "--system", check=False)
        await_service()
        time.sleep(1)
    net.pull_cable(1)
    wait_until(lambda: not link("eth1")["carrier"], "eth1 is seen down", timeout_s=20)
    topic = f"linkhold/v1/{state()['site']}/{state()['node']}/cmd/diagnose"
    answers.publish(topic, b'{"id": "sandboxed"}', expiry_s=60)
    wait_until(lambda: answers.messages, "a diagnosis from within the sandbox", timeout_s=60)
    sent, heard = _settled(hears, known)
    found = {
        "said": done.stdout + done.stderr,
        "upgraded": CURRENT.readlink() != version,
        "flaps": flaps[0],
        "bond": (before, _bond()),
        "most_kb": {unit: _peak_kb(pid(unit)) for unit in (AGENT, BROKER)},
        "broker": pid(BROKER) == broker,
        "events": [(one["id"], one["seq"], one["type"], one["data"]) for one in events()],
        "sent": sent,
        "heard": heard,
        "diagnosis": json.loads(answers.messages[0].payload),
        "kernel": int(Path("/sys/class/net/eth1/carrier_down_count").read_text()),
        "seen": link("eth1")["carrier_downs"],
    }
    for one in (hears, answers):
        one.close()
    configure(ENFORCE + BOND)
    fleet.stop()
    return found


def _settled(hears: Collector, known: set[str]) -> tuple[list[str], list[str]]:
    """Return the ids of what was recorded, and of what the fleet's broker sent on, in order.

    They are the same at a moment when nothing happens; where that does not come, as they are.
    """
    found: tuple[list[str], list[str]] = ([], [])

    def same() -> bool:
        nonlocal found
        recorded = [one["id"] for one in events()]
        heard = [json.loads(message.payload)["id"] for message in hears.messages]
        found = ([i for i in recorded if i not in known], [i for i in heard if i not in known])
        return found[0] == found[1]

    with suppress(TimeoutError):
        wait_until(same, "all events are at the fleet", timeout_s=30)
    return found


@contextmanager
def _flapping(net: TwoSwitches) -> Iterator[list[int]]:
    """Pull and plug the standby's cable for as long as the block runs; yields how often."""
    ending, count = threading.Event(), [0]

    def flap() -> None:
        while not ending.is_set():
            net.pull_cable(1)
            time.sleep(EVERY_S)
            net.plug_cable(1)
            time.sleep(EVERY_S)
            count[0] += 1

    thread = threading.Thread(target=flap)
    thread.start()
    try:
        yield count
    finally:
        ending.set()
        thread.join()


def _bond() -> dict[str, str]:
    """Return what an upgrade must not touch: ports, the active one, and every loss of carrier."""
    read = {name: (BOND_OPTIONS / name).read_text().strip() for name in ("slaves", "active_slave")}
    for nic in ("bond0", "eth0"):
        folder = Path("/sys/class/net") / nic
        read[f"{nic} changes"] = (folder / "carrier_changes").read_text().strip()
    proc = Path("/proc/net/bonding/bond0").read_text(encoding="ascii")
    (of_eth0,) = (part for part in proc.split("Slave Interface: ") if part.startswith("eth0\n"))
    failures = next(line for line in of_eth0.splitlines() if line.startswith("Link Failure"))
    return {**read, "eth0 failures": failures}


def _peak_kb(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
