"""Whole agents that hear of an end: metadata at its real address, logind on a real bus."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.decide.notices.shutdown import QUIET_S
from support.metadata_server import Asked, Threaded, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.fake_logind import Daemon
    from support.netns import Namespace
    from support.running import Running

pytest.importorskip("jeepney")
QUIET = "mqtt: {local: false}\npolicy: {save_time_s: 10}\nalerts: {close_after_s: 0}\n"
NOTICE = '{"action": "terminate", "time": "2026-12-01T08:22:00Z"}'
"""Two minutes after the Date of every answer."""


@pytest.fixture
def link_local(ns: Namespace) -> None:
    """The address of metadata services, on the namespace's loopback."""
    ns.ip("addr add 169.254.169.254/32 dev lo")


def left_s(state: dict[str, Any]) -> float:
    """Return how many seconds are left until the earliest end."""
    return float(state["deadline"]["at_mono_ns"]) / 1e9 - time.monotonic()


def test_a_spot_notice_of_two_minutes_that_is_withdrawn(
    link_local: None, agents: Callable[..., Running]
) -> None:
    """AWS: checkpoint, stop before the deadline, newest uploads; all is taken back with it.

    A restart in between tells it no second time and keeps the ids of what was asked.
    """
    told: dict[str, Told] = {}

    def answer(asked: Asked) -> Told:
        if asked.method == "PUT":
            return Told(body="token")
        return told.get(asked.path.rpartition("/")[2], Told(404))

    with Threaded(answer, "169.254.169.254"):
        agent = agents(QUIET + "notices: {cloud: aws, logind: false}\n").start().wait_ready("")
        agent.wait_for(lambda s: s["detail"]["notices"]["cloud"] == "aws")
        assert agent.state()["notices"] == []
        told["instance-action"] = Told(body=NOTICE)
        state = agent.wait_for(lambda s: s["advice"]["stop"], 8)
        assert (state["notices"][0]["kind"], state["notices"][0]["action"]) == ("spot", "terminate")
        assert 110 < left_s(state) < 121
        assert state["deadline"]["source"] == "aws spot spot-terminate"
        assert state["advice"]["uploads"] == "newest"
        assert [alert["type"] for alert in state["alerts"]] == ["notice"]
        asked = state["advice"]["stop"]["id"]
        time.sleep(0.6)
        agent.kill()

        agent.start().wait_ready("")
        time.sleep(2)
        assert agent.state()["advice"]["stop"]["id"] == asked
        told.clear()
        state = agent.wait_for(lambda s: not s["notices"], 8)
        assert (state["advice"]["stop"], state["advice"]["checkpoint"]) == (None, None)
        assert state["deadline"] is None

    told_of = [one for one in agent.types() if one.startswith("notice.")]
    assert told_of == ["notice.spot", "notice.withdrawn"]


def test_a_spot_notice_of_half_a_minute(link_local: None, agents: Callable[..., Running]) -> None:
    """Google tells at once: what does not fit stays local. A service that dies takes nothing back.

    Its silence is told after three questions.
    """
    body = ["FALSE"]

    def answer(asked: Asked) -> Told:
        header = {"Metadata-Flavor": "Google", "ETag": f"e{body[0].lower()}"}
        if "preempted" not in asked.path:
            return Told(404, headers=header)
        hang_s = 0.2 if "wait_for_change" in asked.path else 0.0
        return Told(body=body[0], headers=header, hang_s=hang_s)

    config = QUIET.replace("save_time_s: 10", "save_time_s: 30")
    with Threaded(answer, "169.254.169.254"):
        agent = agents(config + "notices: {cloud: gcp, logind: false}\n").start().wait_ready("")
        agent.wait_for(lambda s: s["detail"]["agent"]["counters"].get("cloud_polls", 0) > 2, 8)
        body[0] = "TRUE"
        state = agent.wait_for(lambda s: s["advice"]["stop"], 3)
        assert 25 < left_s(state) < 31
        assert state["advice"]["checkpoint"]["local_only"] is True

    state = agent.wait_for(lambda s: "gcp preempted" in s["detail"]["notices"]["blind"], 15)
    assert state["advice"]["stop"]
    assert "gcp preempted tells nothing" in agent.cli("status").stdout


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A message bus."""
    from support.fake_logind import Daemon

    if not shutil.which("dbus-daemon"):
        pytest.skip("dbus-daemon is not installed")
    made = Daemon(tmp_path).start()
    yield made
    made.stop()


TRAINER = """
import os, sys, time
while os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


def test_a_shutdown_waits_for_training_and_pages_nobody(
    daemon: Daemon, agents: Callable[..., Running], tmp_path: Path
) -> None:
    """The delay lock is held while a training process runs, and let go when it has ended.

    The reboot is a planned notice with a deadline, and no alert.
    """
    from support.fake_logind import FakeLogind

    (tmp_path / "trainer.py").write_text(TRAINER)
    trains = tmp_path / "trains"
    trains.touch()
    # In a PID namespace: training of other tests on this machine is none of this node.
    beside = f"RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 {sys.executable} {tmp_path}/trainer.py {trains} &"
    wrap = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    shell = ("sh", "-c", f'{beside} exec "$@"', "sh")
    environment = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={daemon.path}"}
    fake = FakeLogind(daemon)
    try:
        agent = agents(QUIET + "notices: {cloud: never}\n", env=environment, wrap=(*wrap, *shell))
        agent.start().wait_ready("").wait_for(lambda s: s["detail"]["notices"]["locked"])
        assert fake.held

        fake.prepare(down=True)
        state = agent.wait_for(lambda s: s["advice"]["stop"])
        assert state["notices"][0]["planned"] is True
        assert 50 < left_s(state) <= 60
        assert state["alerts"] == []
        time.sleep(1.5)
        assert fake.held
        trains.unlink()
        agent.wait_for(lambda s: not s["detail"]["notices"]["locked"], 5)
        assert not fake.held

        fake.prepare(down=False)
        state = agent.wait_for(lambda s: not s["notices"] and s["detail"]["notices"]["locked"])
        assert state["advice"]["stop"] is None
        told = [one for one in agent.events() if one["type"] == "notice.shutdown"]
        assert [one["data"]["planned"] for one in told] == [True]
        assert told[0]["severity"] == "info"
    finally:
        daemon.stop()
        fake.close()


LISTENER = """
import os, sys, time
from linkhold.client import Hold
with Hold.connect(run_dir=sys.argv[2]) as hold:
    step = 0
    while os.path.exists(sys.argv[1]):
        hold.step(step)
        step += 1
        time.sleep(0.05)
"""


def test_a_shutdown_waits_no_minute_for_a_notebook(
    daemon: Daemon, agents: Callable[..., Running], place: Path, tmp_path: Path
) -> None:
    """Who listens is waited for; what looks like training and hears nothing has ten seconds."""
    from support.fake_logind import FakeLogind

    (tmp_path / "trainer.py").write_text(LISTENER)
    (tmp_path / "notebook.py").write_text(TRAINER)
    trains = tmp_path / "trains"
    trains.touch()
    rank = "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1"
    beside = (
        f"{rank} {sys.executable} {tmp_path}/trainer.py {trains} {place}/run & "
        f"{rank} {sys.executable} {tmp_path}/notebook.py {tmp_path} &"
    )
    wrap = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    shell = ("sh", "-c", f'{beside} exec "$@"', "sh")
    environment = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={daemon.path}"}
    fake = FakeLogind(daemon)
    try:
        agent = agents("notices: {cloud: never}\n", env=environment, wrap=(*wrap, *shell))
        agent.start().wait_ready().wait_for(lambda s: s["detail"]["notices"]["locked"])
        time.sleep(3)  # the client has connected

        fake.prepare(down=True)
        agent.wait_for(lambda s: s["advice"]["stop"])
        time.sleep(QUIET_S + 1.5)
        assert fake.held
        trains.unlink()
        agent.wait_for(lambda s: not s["detail"]["notices"]["locked"], 5)
        assert "what is left of training does not listen to the agent" in agent.log()
    finally:
        daemon.stop()
        fake.close()
