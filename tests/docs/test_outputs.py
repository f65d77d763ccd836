"""What the pages show as output is what is printed, but for numbers, times and names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from docs.pages import ALL_BLOCKS, Block
from docs.place import Host
from docs.shown import lacking
from docs.world import NODE, World
from linkhold.client.retry import retry
from linkhold.client.summary import line
from linkhold.model.numbers import Numbers
from support.broker import Broker
from support.netns import Namespace, missing
from support.places import Place
from support.running import LINKHOLD
from support.shown_fleet import ShownFleet
from support.terminal import InTerminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXTS = [block for block in ALL_BLOCKS if block.kind == "text"]
RESETS = 2


@dataclass(frozen=True)
class Scene:
    """Where output is made again: a fleet, an empty folder, the log of this process."""

    fleet: World
    folder: Path
    log: pytest.LogCaptureFixture


def checked(scene: Scene) -> str:
    """Ask the brokers whether they are right; the page calls the node otherwise."""
    return scene.fleet.host.run("linkhold check --connect").stdout.replace(NODE, "node17")


def audited(scene: Scene) -> str:
    """Print the audit's sentence."""
    return scene.fleet.host.run("linkhold keepalive audit").stdout


def diagnosed(scene: Scene) -> str:
    """Diagnose a host whose gateway has died, beside another host that lives."""
    del scene
    if missing():
        pytest.skip(missing())
    with Place() as folder, Namespace() as ns, Namespace() as other:
        ns.veth("eth0", "eth0", other=other)
        ns.ip("addr add 10.0.0.2/24 dev eth0")
        ns.ip("route add default via 10.0.0.1")
        other.ip("addr add 10.0.0.7/24 dev eth0")
        ns.run("ping", "-qc1", "10.0.0.7")
        host = Host(ns, folder, "node")
        try:
            return host.run("sudo linkhold diagnose").stdout
        finally:
            host.close()


def notified(scene: Scene) -> str:
    """Read what the agent tells systemd; nobody tells this node of power."""
    status = scene.fleet.status().replace("power unknown", "power ok")
    status = re.sub(r"; \d+ alerts?;", "; no alerts;", status)
    return f'Status: "{status.removeprefix("STATUS=")}"'


def seen_on_top(scene: Scene) -> str:
    """Show a fleet in a terminal, one of whose two brokers is gone."""
    broker = Broker(scene.folder / "broker").start()
    fleet = ShownFleet(broker)
    fleet.show([f"gpu-{number:04}" for number in range(20)])
    fleet.show(["gpu-0500"], status="offline")
    fleet.show(["gpu-0700"], "down")
    fleet.show(["gpu-0300"], "degraded")
    fleet.show(["gpu-0010"], status="offline", planned="reboot by root")
    fleet.close()
    urls = (f"--broker=mqtt://127.0.0.1:{port}" for port in (broker.port, 1))
    view = InTerminal([str(LINKHOLD), "top", *urls])
    try:
        view.wait_for(lambda s: "1 planned" in s.text and "LOST" in s.text and "1 down" in s.text)
        text = view.screen.text
    finally:
        view.close()
        broker.kill()
    # These nodes have no power supply that tells, and nobody saw the first one go.
    text = text.replace(" unknown ", " ok ").replace(" -      ", " 1 min  ")
    return re.sub(r"127\.0\.0\.1:\d+", "b1:8883", text)


def retried(scene: Scene) -> str:
    """Call something that is reset twice."""
    resets = iter(range(RESETS))

    @retry("s3", first_pause_s=0.1)
    def push() -> None:
        if next(resets, None) is not None:
            raise ConnectionResetError(104, "Connection reset by peer")

    with scene.log.at_level("INFO", logger="linkhold"):
        push()
    return "\n".join(record.getMessage() for record in scene.log.records)


def summed_up(scene: Scene) -> str:
    """Say what a Hold was good for."""
    del scene
    return line(Numbers(held_s=1.0, holds=2, uploads_kept_back=3, retries=4, attempts_avoided=19))


OUTPUT: dict[str, Callable[[Scene], str]] = {
    r"configuration OK\n": checked,
    r"(DOWN|DEGRADED): ": diagnosed,
    r"\d+ of \d+ connections of job": audited,
    r"Status: ": notified,
    r"linkhold top ": seen_on_top,
    r"s3: connection: ": retried,
    r"this run: ": summed_up,
}
"""How the output is made again that a block shows, by how the block begins."""
PICTURES = {
    r" *this node +the fleet\n": "the parts and what flows between them",
    r"nodes -> fleet brokers -> ": "what flows to whom",
    r"will +topic ": "what a sensor of your own should do; it speaks as the configuration above it",
}
"""Blocks that nobody prints, by how they begin, and what they are."""


@pytest.mark.parametrize("block", TEXTS, ids=lambda block: block.name)
def test_what_is_shown_is_printed(
    fleet: World, tmp_path: Path, caplog: pytest.LogCaptureFixture, block: Block
) -> None:
    """Each line that a block shows is printed, in this order; a picture is named as one."""
    if any(re.match(form, block.text) for form in PICTURES):
        return
    made = [make for form, make in OUTPUT.items() if re.match(form, block.text)]
    assert made, f"{block.name}: say in OUTPUT how it comes about, or what it pictures"
    printed = made[0](Scene(fleet, tmp_path, caplog))

    assert lacking(block.text, printed) == [], printed


def test_the_sketch_of_a_sensor_fits_the_configuration() -> None:
    """The topics of the sketch are those that the page's configuration names."""
    sketch = next(block for block in TEXTS if block.text.startswith("will "))
    config = next(b for b in ALL_BLOCKS if b.page == sketch.page and b.kind == "yaml")
    topics = set(re.findall(r"site/\S+", sketch.text))

    assert len(topics) == 2
    assert all(topic in config.text for topic in topics)


def test_a_line_that_is_not_printed_is_found() -> None:
    """Other words are found, other numbers and spaces are not; order counts; … is anything."""
    printed = "a   1 of 2\nb 3\n"

    assert lacking("a 7 of 9\nb 12:30", printed) == []
    assert lacking("b 3\na 1 of 2", printed) == ["a 1 of 2"]
    assert lacking("a 1 or 2", printed) == ["a 1 or 2"]
    assert lacking("a 1 …\n…", printed) == []
