"""What training counts comes out of the agent's metrics, whatever becomes of the trainer."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from support.broker import wait_until
from support.metrics import lenient
from support.places import NOBODY, TIED, as_nobody
from support.running import ENVIRONMENT, Running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOOP = """
import signal, sys, time
from linkhold.client import Hold, telling
telling.CHANGED_S = 0.5
end = []
signal.signal(signal.SIGTERM, lambda *_: end.append(1))
with Hold.connect(run_dir=sys.argv[1], cover=False) as hold:
    step = 0
    while not end:
        hold.step(step)
        step += 1
        print(step, flush=True)
        time.sleep(0.02)
"""


def test_held_time_is_a_metric_of_the_job(agents: Callable[..., Running], place: Path) -> None:
    """An ordinary user's trainer tells it while it runs, and the last of it as it ends."""
    textfile = place / "linkhold.prom"
    agent = agents(f"metrics: {{textfile: {textfile}}}\n").start().wait_ready()
    script = place / "train.py"
    script.write_text(LOOP)
    env = {**ENVIRONMENT, "TORCHELASTIC_RUN_ID": "exp7"}
    words = [*TIED, *as_nobody(place), sys.executable, str(script), str(agent.run_dir)]

    def value(name: str) -> Any:
        text = textfile.read_text() if textfile.exists() else ""
        for one in (one for family in lenient(text) for one in family.samples):
            if one.name == f"linkhold_training_{name}":
                assert one.labels == {"script": "train.py", "run": "exp7", "uid": str(NOBODY)}
                return one.value
        return None

    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env) as trainer:
        try:
            assert trainer.stdout is not None
            assert trainer.stdout.readline() == b"1\n"
            assert agent.cli("hold", "--training", "--why", "test").returncode == 0
            wait_until(lambda: (value("held_seconds_total") or 0) > 0.5, 20, "told while held")
            assert (value("processes"), value("holds_total")) == (1, 1)
            assert agent.cli("resume").returncode == 0
        finally:
            trainer.terminate()
        trainer.stdout.read()
        assert trainer.wait(20) == 0
    told_s = value("held_seconds_total")
    wait_until(lambda: value("held_seconds_total") > told_s, 15, "the last word counts")


def test_an_agent_that_is_started_again_is_told_at_once(
    agents: Callable[..., Running], place: Path
) -> None:
    """One that was killed knows nothing: it hears within seconds what did not change, too."""
    textfile = place / "linkhold.prom"
    agent = agents(f"metrics: {{textfile: {textfile}}}\n").start().wait_ready()
    script = place / "train.py"
    script.write_text(LOOP)

    def told() -> bool:
        return textfile.exists() and "linkhold_training_processes{" in textfile.read_text()

    words = [*TIED, sys.executable, str(script), str(agent.run_dir)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=ENVIRONMENT) as trainer:
        try:
            wait_until(told, 20, "the first word")
            agent.kill()
            textfile.unlink()
            agent.start().wait_ready()
            wait_until(told, 20, "told again, not within a minute")
        finally:
            trainer.terminate()


def test_nonsense_counts_nothing(agents: Callable[..., Running], place: Path) -> None:
    """A stranger's garbage gets a reason, and no metric."""
    textfile = place / "linkhold.prom"
    agent = agents(f"metrics: {{textfile: {textfile}}}\n").start().wait_ready()
    request = {"cmd": "numbers", "script": 'a"} 1\nx', "run": "", "process": "a" * 16}

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.settimeout(5)
        stranger.connect(str(agent.run_dir / "control.sock"))
        stranger.sendall(json.dumps({**request, "numbers": {"holds": 1}}).encode() + b"\n")
        answer = json.loads(stranger.recv(4096))

    assert (answer["ok"], answer["error"].partition(":")[0]) == (False, "script")
    wait_until(textfile.exists, 15, "the first heartbeat")
    assert "linkhold_training" not in textfile.read_text()


RANKS = """
import os, sys, time
from pathlib import Path
from linkhold.client.telling import Teller
from linkhold.model.numbers import Numbers
run_dir, began_s = Path(sys.argv[1]), time.monotonic() + 2
for _ in range(64):
    if os.fork() == 0:
        teller = Teller()
        time.sleep(began_s - time.monotonic())
        os._exit(not teller.tell(run_dir, Numbers(holds=1), time.monotonic(), ""))
print(sum(os.wait()[1] != 0 for _ in range(64)))
"""


def test_the_last_words_of_all_ranks_are_taken(agents: Callable[..., Running], place: Path) -> None:
    """The processes of a node end in step: more of them than the door lets in at once."""
    agent = agents().start().wait_ready()

    words = [*TIED, *as_nobody(place), sys.executable, "-c", RANKS, str(agent.run_dir)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=ENVIRONMENT)

    assert done.stdout == "0\n"
