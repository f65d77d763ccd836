"""A bond in the lab that a real agent guards, and what both say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.topology import ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.lab import Box
    from support.topology import Bond, TwoSwitches

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
CONFIG = """
mode: {mode}
mqtt: {{local: false}}
bonds:
  bond0: {{members: [eth0, eth1]{more}}}
"""


@dataclass
class Guarded:
    """A bond that the agent guards."""

    net: TwoSwitches
    bond: Bond
    run_dir: Path
    agent: subprocess.Popen[bytes]

    @property
    def state(self) -> dict[str, Any]:
        """The state document now."""
        document = json.loads((self.run_dir / "state.json").read_bytes())
        assert isinstance(document, dict)
        return document

    @property
    def paths(self) -> dict[str, str]:
        """What the agent knows of the members' paths."""
        members = self.state["detail"]["bonds"]["bond0"]["members"]
        return {name: member["path"] for name, member in members.items()}

    def wait(self, what: str, check: Callable[[dict[str, Any]], object], s: float = 20) -> float:
        """Wait until the state passes ``check``; return the seconds it took."""
        return wait_until(lambda: check(self.state), what, timeout_s=s)

    def settle(self, *, seconds: float = 8.0) -> None:
        """Wait until both paths are known alive, and for a record of some probes."""
        self.wait("both alive", lambda _: set(self.paths.values()) == {"alive"})
        time.sleep(seconds)

    def events(self) -> list[dict[str, Any]]:
        """Return all events so far, oldest first."""
        asked = subprocess.run(
            [LINKHOLD, "events", "--json"], capture_output=True, check=True, timeout=30
        )
        return [json.loads(line) for line in asked.stdout.splitlines()]

    def counters(self) -> dict[str, int]:
        """Return the agent's counters."""
        found: dict[str, int] = self.state["detail"]["agent"]["counters"]
        return found


@contextmanager
def guarded(
    box: Box,
    *,
    mode: str = "enforce",
    more: str = "",
    family: int = 0,
    net: TwoSwitches | None = None,
    bond: Bond | None = None,
) -> Iterator[Guarded]:
    """Make two switches and a bond unless given, and let the agent guard it.

    ``family`` 6 takes IPv4 away.
    """
    net = net or box.two_switches()
    bond = bond or net.make_bond(miimon_ms=50, primary_reselect="failure", num_grat_arp=3)
    if family == 6:
        ip("addr", "flush", "dev", "bond0", "scope", "global", "to", "10.0.0.0/24")
    run_dir, state_dir = box.tmp / "run", box.tmp / "state"
    box.tmp.chmod(0o755)
    config = box.tmp / "linkhold.yaml"
    config.write_text(CONFIG.format(mode=mode, more=more), encoding="utf-8")
    os.environ |= {"LINKHOLD_RUN_DIR": str(run_dir), "LINKHOLD_STATE_DIR": str(state_dir)}
    agent = subprocess.Popen([LINKHOLD, "agent", "--config", str(config)])
    wait_until((run_dir / "state.json").exists, "the agent is ready", timeout_s=20)
    try:
        yield Guarded(net, bond, run_dir, agent)
    finally:
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(timeout=10) == 0


def alerts_of(state: dict[str, Any]) -> list[str]:
    """Return the types of the open alerts."""
    return [alert["type"] for alert in state["alerts"]]


def tell(node: Guarded) -> list[tuple[str, dict[str, Any]]]:
    """Return type and data of the events about bond0 and of the network's."""
    told = [event for event in node.events() if event["subject"] in {"bond0", "network"}]
    return [(event["type"], event["data"]) for event in told]
