"""An agent that has nothing to do costs nearly nothing, and grows by nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from support.broker import wait_until
from support.places import private_mounts, resolver
from support.running import agent_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.running import Running

IDLE_S = 10
BEGIN_S = 5
"""First words of all sensors, and alerts after their 3 s, belong to the start."""
MOST_CPU_S = 0.5
MOST_WAKE_UPS = 40
"""Ten of them by the journal, which is looked at each second where there is no kernel's log."""
KILLS, SWITCHES = 4, 16


def tasks(pid: int) -> list[Path]:
    """Return the folders of all threads of a process."""
    return list(Path(f"/proc/{pid}/task").iterdir())


def cost_of(pid: int) -> tuple[float, int]:
    """Return the seconds of CPU and the wake-ups of all threads of a process."""
    seconds = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks(pid)) / 1e9
    lines = [line for task in tasks(pid) for line in (task / "status").read_text().splitlines()]
    return seconds, sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


def size_of(pid: int) -> tuple[int, int]:
    """Return how many threads and descriptors a process has."""
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208


def test_an_idle_agent_sleeps(agents: Callable[..., Running], tmp_path: Path) -> None:
    """Ten seconds of nothing: a handful of wake-ups, little CPU (the bench has the figures).

    The bound of CPU is loose: a virtual machine that was cold takes milliseconds to wake up. The
    kernel's log is the whole machine's, other tests write to it: this agent has none. Its resolver
    answers, as one that does not is asked every second.
    """
    no_log = tmp_path / "kmsg"
    os.mkfifo(no_log)
    alone = private_mounts(f"mount --bind {no_log} /dev/kmsg", resolver())
    agent = agents(wrap=alone).start().wait_ready()
    time.sleep(BEGIN_S)
    before_s, before = cost_of(agent.pid)
    time.sleep(IDLE_S)
    used_s, wake_ups = cost_of(agent.pid)
    print(f"idle: {(used_s - before_s) * 60 / IDLE_S * 1000:.0f} ms of CPU, "
          f"{(wake_ups - before) * 60 / IDLE_S:.0f} wake-ups a minute")  # fmt: skip
    assert used_s - before_s < MOST_CPU_S
    assert wake_ups - before < MOST_WAKE_UPS


def test_restarts_of_the_broker_leave_nothing_behind(agents: Callable[..., Running]) -> None:
    """Brokers that are killed or switched off and on: threads and descriptors stay the same."""
    agent = agents().start().wait_ready()
    time.sleep(1)
    before = size_of(agent.pid)
    for _ in range(KILLS):
        os.kill(agent.broker(), signal.SIGKILL)
        agent.wait_for(lambda s: agent_of(s)["leg_a"] != "up")
        agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up")
    for number in range(2 * SWITCHES):
        agent.config_file.write_text(f"mqtt: {{local: {('false', 'true')[number % 2]}}}\n")
        agent.send(signal.SIGHUP)
        agent.wait_for(lambda s, n=number: agent_of(s)["leg_a"].startswith(("off", "up")[n % 2]))  # type: ignore[misc]

    assert len(agent.brokers()) == 1
    wait_until(lambda: size_of(agent.pid) <= before, 3, f"{size_of(agent.pid)} <= {before}")
