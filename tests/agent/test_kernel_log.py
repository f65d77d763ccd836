"""The kernel's log through a whole agent that is killed again and again while lines come."""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.broker import wait_until
from support.places import private_mounts, resolver

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.running import Running

DEVICE = Path("/dev/kmsg")
USER_DEBUG = 1 << 3 | 7
PER_OPEN = 10
"""printk.devkmsg=ratelimit lets through 10 lines of one open file in 5 s (devkmsg_write)."""
RESTARTS = 6
EVERY_S = 0.12
"""So often that faults fall into every moment of a start, and no ring goes round meanwhile."""
HEARS_USERS = (
    "import sys, linkhold.sensors.kmsg as kmsg\n"
    "kmsg.KERNEL = 1\n"
    "sys.argv = sys.argv[1:]\n"
    "from linkhold.cli import main\n"
    "sys.exit(main())\n"
)
"""User space cannot write facility 0: here the agent takes facility 1 for the kernel's."""

pytestmark = pytest.mark.skipif(
    not os.access(DEVICE, os.R_OK | os.W_OK), reason=f"{DEVICE} may not be read and written"
)


class Writer:
    """Writes noise, and now and then a fault of an interface of its own that ends at once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._token = secrets.token_hex(2)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Write no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            name = f"w{self._token}n{len(self.names)}"
            fd = os.open(DEVICE, os.O_WRONLY)
            lines = ["usb 2-1: new high-speed USB device"] * (PER_OPEN - 2)
            lines.insert(3, f"NETDEV WATCHDOG: {name} (igb): transmit queue 5 timed out")
            lines.append(f"igb 0000:05:00.1 {name}: igb: {name} NIC Link is Up 1000 Mbps")
            for line in lines:
                os.write(fd, f"<{USER_DEBUG}>{line}\n".encode())
            os.close(fd)
            self.names.append(name)


def test_each_fault_is_told_once_however_often_the_agent_is_killed(
    agents: Callable[..., Running],
) -> None:
    """Kills in the middle of a flood, an end as asked between them: none lost, none doubled."""
    wrap = (*private_mounts(resolver()), sys.executable, "-c", HEARS_USERS)
    agent = agents(wrap=wrap).start().wait_ready("")
    dice = random.Random(5)
    writer, lost = Writer(), 0
    try:
        for number in range(RESTARTS):
            threading.Event().wait(dice.uniform(0.0, 0.4))
            lost += agent.state()["detail"]["kernel_log"]["lost"]
            if number % 4:
                agent.kill()
            else:
                agent.stop()
            agent.start().wait_ready("")
    finally:
        writer.end()

    def told() -> Counter[str]:
        return Counter(
            event["data"]["interface"]
            for event in agent.events()
            if event["type"] == "nic.incident"
        )

    wait_until(lambda: told()[writer.names[-1]])
    found = told()
    if lost + agent.state()["detail"]["kernel_log"]["lost"]:
        pytest.skip("the ring of this kernel went round while the agent was away")
    assert {name: found[name] for name in writer.names} == dict.fromkeys(writer.names, 1)
