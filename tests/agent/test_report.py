"""The report of a real outage: from the node's agent, from its disk, and by the fleet's broker."""

from __future__ import annotations

import re
import subprocess
import time
from typing import TYPE_CHECKING

from linkhold.fleet_view.details import details
from linkhold.fleet_view.picture import Fleet, Heard
from support.broker import wait_until
from support.html_page import Parsed
from support.running import ENVIRONMENT, LINKHOLD, fleet_config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.broker import Collector
    from support.netns import Namespace
    from support.running import Running, TiedBroker

OUTAGE_S = 4.0


def report(page: Path, *arguments: str) -> tuple[Parsed, str]:
    """Write a page; return it and what was said on the way."""
    command = [str(LINKHOLD), "report", "--html", "-o", str(page), *arguments]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=ENVIRONMENT
    )
    assert run.returncode == 0, run.stderr
    return Parsed(page.read_text()), run.stderr


def check(parsed: Parsed) -> None:
    """Check that the page tells of the outage: its length, its cause, and what it cost."""
    found = re.search(r"network down([\d]+) seth0 lost carrier", parsed.text)

    assert found is not None, parsed.text
    assert OUTAGE_S - 1 <= int(found[1]) <= OUTAGE_S + 3
    assert re.search(r"\d+ suploads held", parsed.text)
    assert "link eth0" in parsed.text


def check_top(port: int, state: bytes) -> None:
    """Check that ``linkhold top`` shows a real state, and every part of it in the details."""
    command = [str(LINKHOLD), "top", "--once", "--broker", f"mqtt://127.0.0.1:{port}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    topic = "linkhold/v1/lab/n1/state"
    fleet = Fleet()
    fleet.take(Heard("b", topic, state, retained=False, at_s=time.time()))
    lines = details(fleet.nodes["lab", "n1"], time.time())
    told = "\n".join("".join(text for text, _ in line) for line in lines)

    assert re.search(r"^n1 +ok ", run.stdout, re.MULTILINE)
    assert "of another version" not in told
    assert re.search(r"^link eth0: up.*, lost \d+ time", told, re.MULTILINE)


def test_an_outage_from_all_three_sides(
    ns: Namespace,
    place: Path,
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """The same outage stands on the page of the node, of the fleet, and of what a dead one left."""
    broker = fleets().start()
    on_call = collect(broker)
    agent = agents(fleet_config(broker.port)).start().wait_ready()
    agent.wait_for(lambda state: state["detail"]["agent"]["leg_b"].startswith("up"))
    peer = ns.index("p0")
    ns.flip(peer, up=False)
    agent.wait_for(lambda state: state["network"] == "down")
    time.sleep(OUTAGE_S)
    ns.flip(peer, up=True)
    agent.wait_for(lambda state: state["network"] == "ok")
    agent.wait_for(lambda state: state["advice"]["uploads"] == "go", 30)
    wait_until(lambda: on_call.on("event/network.ok"))
    page = place / "page.html"

    parsed, said = report(page, "--run-dir", str(agent.run_dir))
    check(parsed)
    assert "Now online, network ok" in parsed.text
    assert said == ""

    parsed, said = report(page, "--broker", f"mqtt://127.0.0.1:{broker.port}", "--since", "1h")
    check(parsed)
    assert said == ""

    check_top(broker.port, on_call.on("lab/n1/state")[-1].payload)

    agent.kill()
    folders = ("--run-dir", str(agent.run_dir), "--state-dir", str(agent.state_dir))
    parsed, said = report(page, *folders)
    check(parsed)
    assert "No agent runs" in said
