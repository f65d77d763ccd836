"""`linkhold hold` and `resume` with a running agent, real clients, and users of other kinds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.broker import wait_until
from support.places import NOBODY, TIED, as_nobody, private_mounts
from support.running import ENVIRONMENT, LINKHOLD, Running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.netns import Namespace

GROUP_ID = 64321
LOOP = """
import sys, time
from linkhold.client import Hold
with Hold.connect(run_dir=sys.argv[1], upload_spread_s=0, cover=False) as hold:
    for step in range(100_000):
        hold.step(step)
        print(step, hold.waiting_for, flush=True)
        hold.upload(step, lambda n: print("pushed", n, flush=True))
        time.sleep(0.02)
"""


class Job:
    """A training process whose job is called after its script and its run."""

    def __init__(self, agent: Running, folder: Path, name: str, wrap: tuple[str, ...] = ()) -> None:
        self.name = f"{name}.py@{name}-run"
        self._output = folder / f"{name}.out"
        script = folder / f"{name}.py"
        script.write_text(LOOP)
        env = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": f"{name}-run"}
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*TIED, *wrap, sys.executable, str(script), str(agent.run_dir)],
                stdout=output,
                stderr=output,
                env={**ENVIRONMENT, **env},
            )

    def lines(self) -> list[str]:
        """Return what it has printed."""
        return self._output.read_text().splitlines()

    def runs(self) -> bool:
        """Tell whether it takes steps now."""
        before = len(self.lines())
        time.sleep(0.3)
        return len(self.lines()) > before

    def pushes(self) -> bool:
        """Tell whether it uploads now."""
        before = sum(line.startswith("pushed") for line in self.lines())
        time.sleep(0.5)
        return sum(line.startswith("pushed") for line in self.lines()) > before


@pytest.fixture
def jobs(ns: Namespace, place: Path) -> Iterator[Callable[..., Job]]:
    """Make training processes that are killed at the end."""
    made: list[Job] = []

    def make(agent: Running, name: str, *wrap: str) -> Job:
        made.append(Job(agent, place, name, wrap))
        wait_until(made[-1].lines, 20, "the first step")
        return made[-1]

    yield make
    for job in made:
        job.process.kill()
        job.process.wait()


def holds(agent: Running) -> list[dict[str, Any]]:
    """Return the holds of the state file."""
    found = agent.state()["holds"]
    assert isinstance(found, list)
    return found


def test_a_hold_of_the_node_pauses_every_job_until_resume(
    agent: Running, jobs: Callable[..., Job]
) -> None:
    """step() waits and says why; state, status and events say who; resume ends it."""
    job = jobs(agent, "one")
    assert job.runs()
    done = agent.cli("hold", "--for", "2m", "--why", "switch work")
    assert done.returncode == 0
    assert done.stdout.startswith("training and uploads of this node held until ")
    wait_until(lambda: any("training on hold: held by root" in line for line in job.lines()), 5)
    assert not job.runs()

    shown = agent.cli("status").stdout
    assert "training and uploads of this node by root until " in shown
    assert "linkhold resume ends it): switch work" in shown
    assert "training hold" in shown
    hold = holds(agent)[0]
    assert (hold["by"], hold["uid"], hold["why"]) == ("root", 0, "switch work")
    assert hold["until_mono_ns"] - hold["since_mono_ns"] == 120 * 10**9

    back = agent.cli("resume")
    assert back.stdout.startswith("training and uploads of this node may go on (root held it")
    wait_until(job.runs, 5)
    assert holds(agent) == []
    types = agent.types()
    assert (types.count("hold.started"), types.count("hold.ended")) == (1, 1)
    assert agent.cli("resume").returncode == 1


def test_a_hold_of_one_job_leaves_the_others_alone(
    agent: Running, jobs: Callable[..., Job]
) -> None:
    """Named by its script; held by itself; an unknown name lists what runs."""
    first, second = jobs(agent, "one"), jobs(agent, "two")
    done = agent.cli("hold", "--training", "--job", "one.py", "--why", "look at it", "--json")
    assert done.returncode == 0, done.stderr
    assert [hold["job"] for hold in json.loads(done.stdout)["holds"]] == [first.name]
    wait_until(lambda: not first.runs(), 5)
    assert second.runs()
    assert agent.state()["advice"]["training"] == "go"

    wrong = agent.cli("hold", "--job", "three.py", "--why", "x")
    assert wrong.returncode == 1
    assert first.name in wrong.stderr
    assert second.name in wrong.stderr
    assert agent.cli("resume", "--job", "one.py").returncode == 0
    wait_until(first.runs, 5)


def test_a_job_in_a_container_is_held_as_well(agent: Running, jobs: Callable[..., Job]) -> None:
    """It has another pid there than the agent sees; a job beside it with that pid goes on."""
    alone = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    first, second = jobs(agent, "one", *alone), jobs(agent, "two", *alone)
    done = agent.cli("hold", "--job", "one-run", "--why", "look at it")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not first.runs(), 5)
    assert any("held by root" in line for line in first.lines())
    assert second.runs()
    assert holds(agent)[0]["processes"][-1][0] == 1


def test_a_hold_of_uploads_leaves_training_alone_and_ends_by_itself(
    agent: Running, jobs: Callable[..., Job]
) -> None:
    """--uploads: steps go on, nothing is pushed; after --for it goes on without anybody."""
    job = jobs(agent, "one")
    wait_until(job.pushes, 5)
    assert agent.cli("hold", "--uploads", "--for", "5s", "--why", "storage work").returncode == 0
    wait_until(lambda: not job.pushes(), 3)
    assert job.runs()
    wait_until(lambda: holds(agent) == [], 8)
    wait_until(job.pushes, 5)
    ended = [event for event in agent.events() if event["type"] == "hold.ended"]
    assert ended[0]["data"]["reason"] == "its time is over"


def test_a_hold_survives_a_crash_of_the_agent(agent: Running, jobs: Callable[..., Job]) -> None:
    """The next agent of the same boot goes on with the same hold, to the same end."""
    job = jobs(agent, "one")
    assert agent.cli("hold", "--for", "3m", "--why", "switch work").returncode == 0
    wait_until(lambda: not job.runs(), 5)
    before = holds(agent)
    wait_until(lambda: "hold.started" in agent.types(), 5)
    agent.kill()
    agent.start().wait_ready()

    after = holds(agent)
    assert [(one["why"], one["since_mono_ns"], one["until_mono_ns"]) for one in after] == [
        (one["why"], one["since_mono_ns"], one["until_mono_ns"]) for one in before
    ]
    assert not job.runs()
    assert agent.cli("resume").returncode == 0
    wait_until(job.runs, 5)


def as_user(agent: Running, *words: str, group: bool) -> subprocess.CompletedProcess[str]:
    """Run a command as nobody, as a member of the operators' group or not."""
    wrap = [
        word.replace("--clear-groups", f"--groups={GROUP_ID}") for word in as_nobody(agent.place)
    ]
    return subprocess.run(
        [*(wrap if group else as_nobody(agent.place)), str(LINKHOLD), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        env={**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(agent.run_dir), "HOME": "/"},
    )


def test_only_root_and_the_operators_may(agents: Callable[..., Running], place: Path) -> None:
    """By supplementary group, as the kernel tells it; everybody else gets an error that helps."""
    groups = place / "group"
    groups.write_text(f"root:x:0:\nlinkhold-operators:x:{GROUP_ID}:\n")
    agent = agents(wrap=private_mounts(f"mount --bind {groups} /etc/group")).start().wait_ready()

    stranger = as_user(agent, "hold", "--why", "x", group=False)
    assert stranger.returncode == 1
    assert "members of the group linkhold-operators may" in stranger.stderr
    assert "Traceback" not in stranger.stderr
    assert holds(agent) == []
    member = as_user(agent, "hold", "--uploads", "--why", "x", group=True)
    assert member.returncode == 0, member.stderr
    assert (holds(agent)[0]["uid"], holds(agent)[0]["by"]) == (NOBODY, "nobody")
    assert as_user(agent, "resume", group=False).returncode == 1
    assert as_user(agent, "resume", group=True).returncode == 0


WRONG_CALLS = (
    (("hold",), 64, "--why"),
    (("hold", "--why", "x", "--for", "9h"), 1, "allowed: 5 s to 4 h"),
    (("hold", "--why", "x", "--for", "soon"), 64, "allowed: 90s, 15m, 2h, 1d"),
    (("hold", "--why", "", "--uploads"), 1, "printable characters"),
    (("hold", "--why", "x", "--uploads", "--training"), 64, "not allowed with"),
)


def test_a_wrong_call_is_explained(agent: Running) -> None:
    """The error says what is allowed, and nothing is held; without an agent it says so."""
    for words, code, says in WRONG_CALLS:
        done = agent.cli(*words)
        assert (done.returncode, says in done.stderr) == (code, True), (words, done.stderr)
    assert holds(agent) == []
    agent.stop()
    done = agent.cli("hold", "--why", "x")
    assert (done.returncode, "no agent answers" in done.stderr) == (1, True)
