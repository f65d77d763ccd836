"""Whole agents and commands that look after the sysctls of keepalive, in namespaces."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.broker import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.netns import Namespace
    from support.running import Running

QUICK = "mqtt: {local: false}\nkeepalive: {profile: default, check_every: 1}\n"
FOLDER = Path("/proc/sys/net/ipv4")
KERNEL = {"tcp_keepalive_time": 7200, "tcp_keepalive_intvl": 75, "tcp_keepalive_probes": 9}
WANTED = {"tcp_keepalive_time": 600, "tcp_keepalive_intvl": 60, "tcp_keepalive_probes": 20}


def values() -> dict[str, int]:
    """Return the sysctls of the namespace that this thread is in."""
    return {key: int((FOLDER / key).read_text()) for key in KERNEL}


def put(key: str, value: int) -> None:
    """Set one of them."""
    (FOLDER / key).write_text(str(value))


def test_observe_reports_and_writes_nothing(agents: Callable[..., Running]) -> None:
    """In mode observe the state says what is and what is wanted; nothing changes."""
    agent = agents(QUICK).start().wait_ready("")
    state = agent.wait_for(lambda s: s["detail"]["keepalive"]["drifts"])
    found = state["detail"]["keepalive"]

    assert found["present"] == {"time_s": 7200, "interval_s": 75, "probes": 9}
    assert found["wanted"] == {"time_s": 600, "interval_s": 60, "probes": 20}
    assert not found["enough"]
    assert values() == KERNEL
    assert agent.types().count("keepalive.drift") == 3
    line = next(s for s in agent.cli("status").stdout.splitlines() if s.startswith("keepalive:"))
    assert "mode observe" in line


def test_enforce_writes_repairs_and_restores(agents: Callable[..., Running]) -> None:
    """What is wanted is written, a drift repaired and told, and a restore gives what was found."""
    agent = agents(f"mode: enforce\n{QUICK}").start().wait_ready("")
    wait_until(lambda: values() == WANTED, 5)
    put("tcp_keepalive_time", 7000)
    wait_until(lambda: values() == WANTED, 5)
    wait_until(lambda: agent.types().count("keepalive.repaired") == 2, 5)
    last = [e for e in agent.events() if e["type"].endswith("keepalive.repaired")][-1]
    assert last["data"]["values"] == {"tcp_keepalive_time": {"from": 7000, "to": 600}}

    refused = agent.cli("keepalive", "restore")
    assert refused.returncode == 1
    assert "mode enforce" in refused.stderr
    agent.stop()
    assert agent.cli("keepalive", "restore").returncode == 0
    assert values() == KERNEL


def test_a_fight_ends_in_a_conflict_and_costs_nothing(agents: Callable[..., Running]) -> None:
    """A process that rewrites the sysctl all the time is reported with one alert, not fought."""
    over = threading.Event()

    def fight() -> None:
        while not over.wait(0.001):
            put("tcp_keepalive_time", 7100)

    agent = agents(f"mode: enforce\nalerts: {{fire_after_s: 0}}\n{QUICK}").start().wait_ready("")
    wait_until(lambda: values() == WANTED, 5)
    process = Path(f"/proc/{agent.pid}/stat")
    hostile = threading.Thread(target=fight)
    hostile.start()
    try:
        state = agent.wait_for(
            lambda s: any(a["type"] == "keepalive.config_conflict" for a in s["alerts"]), 10
        )
        before = cpu_s(process)
        time.sleep(2)
        used_s = cpu_s(process) - before
    finally:
        over.set()
        hostile.join()
    repairs = agent.types().count("keepalive.repaired")
    assert repairs <= 3
    assert agent.types().count("keepalive.config_conflict") == 1
    assert [d["key"] for d in state["detail"]["keepalive"]["drifts"]] == ["tcp_keepalive_time"]
    assert used_s < 0.5
    agent.send(signal.SIGHUP)  # with the same configuration: what was fought over is tried again
    wait_until(lambda: values() == WANTED, 5)


def cpu_s(stat: Path) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


ALONE = """
mkdir -p /run/netns && mount -t tmpfs none /run/netns
{agent} & agent=$!
unshare --net sleep 60 & first=$!
sleep 3
unshare --net sleep 60 & second=$!
sleep 4
for one in $first $second; do
    nsenter --net --target $one cat /proc/sys/net/ipv4/tcp_keepalive_time
done
kill $first $second; sleep 2; kill $agent; wait $agent
"""


@pytest.mark.parametrize(("scope", "expected"), [("host", "7200"), ("all", "600")])
def test_other_namespaces_get_the_values_where_asked(
    agents: Callable[..., Running], scope: str, expected: str
) -> None:
    """With `all`, namespaces get them, also one that appears later; what ends is forgotten.

    The agent has a pid namespace of its own: it must not see those of this machine.
    """
    config = QUICK.replace("check_every", f"namespaces: {scope}, check_every")
    agent = agents(f"mode: enforce\n{config}")
    agent.config_file.write_text(f"mode: enforce\n{config}")
    script = ALONE.format(agent=shlex.join(agent.command()))
    alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = {**agent._env, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [*alone, "sh", "-c", script],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )

    assert done.stdout.split() == [expected, expected], done.stderr
    assert "Traceback" not in done.stderr
    assert values() == WANTED


def test_apply_acts_in_any_mode_and_leaves_what_is_better(
    agents: Callable[..., Running], ns: Namespace
) -> None:
    """The command writes at once; values that are better are left and said to be."""
    agent = agents(QUICK)
    agent.config_file.write_text(QUICK)
    applied = agent.cli("keepalive", "apply", "--config", str(agent.config_file))
    assert applied.returncode == 0, applied.stderr
    assert "net.ipv4.tcp_keepalive_time: 7200 -> 600" in applied.stdout
    assert values() == WANTED
    put("tcp_keepalive_time", 200)
    again = agent.cli("keepalive", "apply", "--config", str(agent.config_file))
    assert "as wanted or better" in again.stdout
    assert values()["tcp_keepalive_time"] == 200


def test_plan_shows_why_and_what_is_survived(agents: Callable[..., Running]) -> None:
    """Present, wanted, reasons, cost and outage, as a table and as JSON."""
    agent = agents()
    agent.config_file.write_text(
        "keepalive: {profile: custom, time_s: 60, interval_s: 10, probes: 6}\n"
    )
    words = ("keepalive", "plan", "--config", str(agent.config_file))
    shown = agent.cli(*words).stdout
    document: dict[str, Any] = json.loads(agent.cli(*words, "--json").stdout)

    assert "WARNING: keepalive itself ends an idle connection after 120 s" in shown
    assert document["idle"]["survives_at_least_s"] == 50
    assert document["namespaces"][0]["idle"]["survives_at_most_s"] == 7875
    assert document["idle"]["packets_per_hour"] == 120
    agent.config_file.write_text("keepalive: {profile: unmanaged}\n")
    assert "unmanaged: keepalive is not managed" in agent.cli(*words).stdout
    assert values() == KERNEL
