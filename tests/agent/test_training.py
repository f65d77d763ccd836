"""From a UPS or a cloud's notice through a whole agent to a training process and its exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from support.broker import wait_until
from support.metadata_server import Asked, Threaded, Told
from support.nut import UPSD, Nut
from support.places import TIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.broker import Collector
    from support.netns import Namespace
    from support.running import Running, TiedBroker

QUIET = "mqtt: {local: false}\n"
SAVE_S = 1.0
NEVER = 10**9
"""Steps between scheduled checkpoints, where each that is made is to be one that was asked for."""
SCRIPT = """\
import os, pathlib, sys, time
import numpy as np
from linkhold.client import Hold

folder, save_s, every = pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
weights, step = np.zeros(1000), 0
hold = Hold.connect(run_dir=folder / "run", checkpoint_every_steps=every)
(folder / "began").touch()
while not (folder / "enough").exists():
    weights += 1
    time.sleep(0.02)
    hold.step(step)
    if hold.checkpoint_due(step):
        with hold.saving():
            time.sleep(save_s)
            np.save(folder / "draft.npy", weights)
            os.replace(folder / "draft.npy", folder / "weights.npy")
        with (folder / "saved").open("a") as file:
            file.write(f"{step} {int(hold.local_only)}\\n")
    if hold.stop_due:
        with (folder / "left").open("w") as file:
            file.write(f"{step} {hold.seconds_left}")
        hold.exit()
    step += 1
hold.close()
"""


class Training:
    """A training process beside an agent, and what it left; saves ``every`` so many steps."""

    def __init__(self, agent: Running, every: int = 40) -> None:
        self.folder = agent.place
        script = self.folder / "train.py"
        script.write_text(SCRIPT)
        with (self.folder / "train.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*TIED, sys.executable, str(script), str(self.folder), str(SAVE_S), str(every)],
                cwd=self.folder, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until((self.folder / "began").exists, 30, "training has begun")

    def saves(self) -> list[tuple[int, bool]]:
        """Return the steps saved so far, and whether each was to stay local."""
        file = self.folder / "saved"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(line.split()[0]), line.endswith("1")) for line in lines]

    def end(self) -> int:
        """Wait for the exit code."""
        return self.process.wait(40)

    def whole(self) -> int:
        """Return the step of the checkpoint, which must be complete."""
        weights = np.load(self.folder / "weights.npy")
        assert weights.shape == (1000,)
        assert (weights == weights[0]).all()
        return int(weights[0]) - 1

    def marker(self) -> dict[str, Any]:
        """Return the stop marker."""
        found: dict[str, Any] = json.loads((self.folder / ".linkhold-stop").read_text())
        return found


@pytest.fixture
def nut(ns: Namespace, tmp_path: Path) -> Iterator[Nut]:
    """An upsd with one UPS, on line."""
    if not shutil.which(UPSD):
        pytest.skip("nut-server is not installed")
    made = Nut(tmp_path, "ups1")
    yield made.start()
    made.stop()


def test_a_power_cut(nut: Nut, agents: Callable[..., Running]) -> None:
    """OB: a checkpoint at once, more in time. OL: training goes on. LB: the last, exit code 75."""
    config = (
        f"{QUIET}notices: {{cloud: never, logind: false}}\n"
        "policy: {mains_back_s: 1, save_time_s: 1}\n"
        f"power: {{poll: 0.5s, nut: [{{name: ups-a, ups: ups1, port: {nut.port}}}]}}\n"
    )
    agent = agents(config).start().wait_ready("")
    agent.wait_for(lambda s: s["power"] == "ok")
    training = Training(agent)
    wait_until(training.saves, 30, "the first checkpoint")

    before = len(training.saves())
    nut.set("ups1", "OB DISCHRG", battery_charge="90", battery_runtime="12")
    wait_until(lambda: len(training.saves()) > before + 1, 15, "checkpoints on battery")
    nut.set("ups1", "OL", battery_charge="90", battery_runtime="900")
    agent.wait_for(lambda s: s["power"] == "ok" and not s["advice"]["checkpoint"])
    time.sleep(1.0)
    assert training.process.poll() is None

    nut.set("ups1", "OB DISCHRG LB", battery_charge="8", battery_runtime="60")
    assert training.end() == 75, agent.log()
    step, left_s = (training.folder / "left").read_text().split()
    assert training.whole() == int(step) == training.saves()[-1][0] == training.marker()["step"]
    assert float(left_s) > 0
    assert training.marker()["reason"] == "battery low"


def test_a_forced_shutdown(nut: Nut, agents: Callable[..., Running]) -> None:
    """FSD with a full battery is an order all the same: a checkpoint, exit code 75, in time."""
    config = (
        f"{QUIET}notices: {{cloud: never, logind: false}}\npolicy: {{save_time_s: 1}}\n"
        f"power: {{poll: 0.5s, nut: [{{name: ups-a, ups: ups1, port: {nut.port}}}]}}\n"
    )
    agent = agents(config).start().wait_ready("")
    agent.wait_for(lambda s: s["power"] == "ok")
    training = Training(agent, every=NEVER)

    nut.set("ups1", "FSD OL", battery_charge="100", battery_runtime="1800")
    assert training.end() == 75, agent.log()
    assert agent.state()["deadline"]["at_mono_ns"] / 1e9 - time.monotonic() < 40
    step, left_s = (training.folder / "left").read_text().split()
    assert training.whole() == int(step) == training.saves()[-1][0] == training.marker()["step"]
    assert 0 < float(left_s) <= 10
    assert training.marker()["reason"] == "forced shutdown by the UPS"


def test_a_sensor_of_mains(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """An ESP32's word through mosquitto: one checkpoint; one sensor alone never ends training."""
    fleet = fleets().start()
    esp = collect(fleet)
    esp.publish("rack1/mains", b"1", retain=True)
    config = (
        f"mqtt: {{local: false, connect_jitter_s: 0, fleet: [{{host: 127.0.0.1, "
        f"port: {fleet.port}}}]}}\nnotices: {{cloud: never, logind: false}}\n"
        "power: {mqtt: [{name: rack1, topics: [rack1/mains]}]}\npolicy: {mains_back_s: 1}\n"
    )
    agent = agents(config).start().wait_ready("")
    agent.wait_for(lambda s: s["power"] == "ok", 30)
    training = Training(agent, every=NEVER)
    esp.publish("rack1/mains", b"0", retain=True)
    wait_until(training.saves, 20, "a checkpoint")
    time.sleep(2.0)
    assert training.process.poll() is None
    esp.publish("rack1/mains", b"1", retain=True)
    agent.wait_for(lambda s: not s["advice"]["checkpoint"], 30)
    (training.folder / "enough").touch()

    assert training.end() == 0
    assert len(training.saves()) == 1


@pytest.fixture
def link_local(ns: Namespace) -> None:
    """The address of metadata services, on the namespace's loopback."""
    ns.ip("addr add 169.254.169.254/32 dev lo")


@pytest.mark.parametrize(
    ("time_of_end", "ahead_s", "save_time_s", "local_only"),
    [("2026-12-01T08:22:00Z", 120, 1, False), ("2026-12-01T08:20:30Z", 30, 30, True)],
)
def test_a_spot_notice(
    link_local: None,
    agents: Callable[..., Running],
    time_of_end: str,
    ahead_s: float,
    save_time_s: int,
    local_only: bool,  # noqa: FBT001
) -> None:
    """A checkpoint, exit code 75 before the end; no upload where 1.5 saves do not fit.

    Times of an end count from the Date of the answer that tells them.
    """
    told: dict[str, Told] = {}

    def answer(asked: Asked) -> Told:
        if asked.method == "PUT":
            return Told(body="token")
        return told.get(asked.path.rpartition("/")[2], Told(404))

    with Threaded(answer, "169.254.169.254"):
        policy = f"policy: {{save_time_s: {save_time_s}}}\n"
        config = f"{QUIET}{policy}notices: {{cloud: aws, logind: false}}\n"
        agent = agents(config).start().wait_ready("")
        agent.wait_for(lambda s: s["detail"]["notices"]["cloud"] == "aws")
        training = Training(agent)
        told_s = time.monotonic()
        body = json.dumps({"action": "terminate", "time": time_of_end})
        told["instance-action"] = Told(body=body)
        assert training.end() == 75, agent.log()

    assert time.monotonic() - told_s < ahead_s
    assert training.whole() == training.saves()[-1][0] == training.marker()["step"]
    assert training.saves()[-1][1] is local_only
    assert "spot notice: terminate" in training.marker()["reason"]


def test_a_notice_that_is_withdrawn(link_local: None, agents: Callable[..., Running]) -> None:
    """A recommendation to rebalance asks for one checkpoint, and training goes on to its end."""
    told: dict[str, Told] = {}

    def answer(asked: Asked) -> Told:
        if asked.method == "PUT":
            return Told(body="token")
        return told.get(asked.path.rpartition("/")[2], Told(404))

    with Threaded(answer, "169.254.169.254"):
        agent = agents(f"{QUIET}notices: {{cloud: aws, logind: false}}\n").start().wait_ready("")
        agent.wait_for(lambda s: s["detail"]["notices"]["cloud"] == "aws")
        training = Training(agent, every=NEVER)
        told["rebalance"] = Told(body='{"noticeTime": "2026-12-01T08:22:00Z"}')
        agent.wait_for(lambda s: s["advice"]["checkpoint"])
        wait_until(training.saves, 20, "a checkpoint")
        told.clear()
        agent.wait_for(lambda s: not s["advice"]["checkpoint"], 15)
        (training.folder / "enough").touch()
        assert training.end() == 0, agent.log()

    assert len(training.saves()) == 1
