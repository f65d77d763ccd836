"""Children of a training process: they hold no socket, wait for no lock, and may listen."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client.conftest import Broker, descriptors, until
from client.states import HOLD, HandAgent
from linkhold.client import Hold, fork

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

FORK = multiprocessing.get_context("fork")


def _report(pipe: Connection) -> None:
    """Tell which sockets this child holds, then stay until told to go."""
    pipe.send(descriptors(os.getpid()))
    pipe.recv()


def broker_sockets() -> set[str]:
    """Return the sockets that this process has and a fresh one would not."""
    return set(descriptors(os.getpid()))


def test_forked_worker_holds_no_socket(broker: Broker, run_dir: Path, agent: HandAgent) -> None:
    """A forked child has no copy of the broker's socket, and the parent goes on hearing."""
    before = broker_sockets()
    agent.say()
    with Hold.connect(run_dir=run_dir) as hold:
        assert until(lambda: broker_sockets() - before)
        assert until(lambda: broker.lines("SUBSCRIBE"))
        ours = broker_sockets() - before
        near, far = FORK.Pipe()
        child = FORK.Process(target=_report, args=(far,), daemon=True)
        child.start()

        assert not ours & set(near.recv())

        agent.say(by_file=False, **HOLD)
        assert until(lambda: hold._attention)
        near.send("go")
        child.join(5)
        assert child.exitcode == 0


TRAINER = """
import multiprocessing, os, sys, time
from linkhold.client import Hold
hold = Hold.connect(run_dir=sys.argv[1])
workers = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(30,))
           for _ in range(2)]
for worker in workers:
    worker.start()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(30)
    os._exit(0)
os.wait()
os.write(1, b"%d %d\\n" % tuple(worker.pid for worker in workers))
time.sleep(30)
"""


def test_trainer_killed_with_workers_left(broker: Broker, run_dir: Path, agent: HandAgent) -> None:
    """The broker sees a killed trainer go at once, though workers and a daemon of it live on."""
    agent.say()
    trainer = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", TRAINER, str(run_dir)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert trainer.stdout is not None
    left = [int(pid) for _ in range(2) for pid in trainer.stdout.readline().split()]
    try:
        assert until(lambda: broker.lines("as linkhold-client") == 1)
        trainer.kill()
        trainer.wait()

        gone = "Client linkhold-client"
        assert until(lambda: broker.lines(gone) >= 1, 2)
        assert sum(Path(f"/proc/{pid}").exists() for pid in left) == 3
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        trainer.stdout.close()


def _step_in_child(hold: Hold, pipe: Connection) -> None:
    inert = all(thread.name != "linkhold" for thread in threading.enumerate())
    hold.step(1)
    hold.on_wait = lambda: pipe.send("waiting")
    listens = any(thread.name == "linkhold" for thread in threading.enumerate())
    pipe.send((inert, listens))
    until(lambda: hold._source.newest and hold._source.newest.advice.training == "hold", 5)
    hold.step(2)
    pipe.send("released")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_child_listens_when_it_calls(
    broker: Broker, run_dir: Path, agent: HandAgent, method: Any
) -> None:
    """A forked or spawned child is inert until its first call, then holds like the parent."""
    context = multiprocessing.get_context(method)
    agent.say()
    with Hold.connect(run_dir=run_dir) as hold:
        assert until(lambda: broker.lines("SUBSCRIBE"))
        near, far = context.Pipe()
        child = context.Process(target=_step_in_child, args=(hold, far), daemon=True)
        child.start()
        assert near.recv() == (True, True)
        assert until(lambda: broker.lines("SUBSCRIBE") >= 2)

        agent.say(**HOLD)
        assert near.recv() == "waiting"
        agent.say()
        while near.recv() != "released":
            pass
        child.join(5)
        assert child.exitcode == 0


def _call_everything(hold: Hold) -> None:
    hold.step(1)
    hold.checkpoint_due(1)
    done = hold.upload("x", print)
    ended = done.wait(10)
    hold.close(1)
    os._exit(0 if ended else 3)


def test_fork_while_everything_moves(broker: Broker, run_dir: Path, agent: HandAgent) -> None:
    """A fork at any moment of listening and uploading leaves a child that can do all of it."""
    agent.say()
    stop = threading.Event()
    uploads = []

    def stir() -> None:
        while not stop.is_set():
            agent.say(by_file=False)
            uploads.append(hold.upload("x", lambda _s: time.sleep(0.001)))

    with Hold.connect(run_dir=run_dir) as hold:
        stirrer = threading.Thread(target=stir)
        stirrer.start()
        for _ in range(15):
            child = FORK.Process(target=_call_everything, args=(hold,), daemon=True)
            child.start()
            child.join(15)
            assert child.exitcode == 0
        stop.set()
        stirrer.join()
        assert uploads[-1].wait(5)


def _orphans(hold: Hold, upload: Any) -> None:
    hold.step(1)
    ok = upload.wait(1) and "parent process" in str(upload.error)
    os._exit(0 if ok else 3)


def test_uploads_stay_with_the_parent(run_dir: Path, agent: HandAgent) -> None:
    """A child does not repeat the parent's uploads, and waits for none of them."""
    agent.say(by_broker=False, uploads="hold")
    with Hold.connect(run_dir=run_dir, upload_spread_s=0) as hold:
        upload = hold.upload("x", lambda _s: None)
        child = FORK.Process(target=_orphans, args=(hold, upload), daemon=True)
        child.start()
        child.join(5)
        assert child.exitcode == 0
        assert not upload.done

        agent.say(by_broker=False)
        assert upload.wait(5)
        assert upload.error is None


def test_fork_waits_for_a_connection_being_opened() -> None:
    """A socket that nobody knows of yet is never copied: the fork waits, for a second at most."""
    entered, leave = threading.Event(), threading.Event()

    def opening() -> None:
        with fork.no_fork():
            entered.set()
            leave.wait(5)

    thread = threading.Thread(target=opening)
    thread.start()
    entered.wait()
    threading.Timer(0.3, leave.set).start()
    began_s = time.monotonic()
    pid = os.fork()
    if pid == 0:
        with fork.no_fork():
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert 0.2 < time.monotonic() - began_s < 1.5
    thread.join()


def test_fork_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that is forked while our thread imports can import the same module."""
    (tmp_path / "slow_to_load.py").write_text("import time\ntime.sleep(0.4)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    thread = threading.Thread(target=fork.import_whole, args=("slow_to_load",))
    thread.start()
    time.sleep(0.1)
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        fork.import_whole("slow_to_load")
        os._exit(0)
    thread.join()
    assert os.waitpid(pid, 0)[1] == 0


def test_pickled_hold_carries_its_settings(run_dir: Path) -> None:
    """A copy made by pickle has the same settings, no thread, and connects at its first call."""
    with Hold.connect(run_dir=run_dir, checkpoint_every_steps=7) as hold:
        copy = pickle.loads(pickle.dumps(hold))

        assert hold._settings == copy._settings
        assert not copy._listening
        copy.close(0)


class Sockets:
    """A data set of eight samples: the sockets that the worker holds."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        import torch

        names = [int(name[8:-1]) for name in descriptors(os.getpid())]
        return torch.tensor((names + [0] * 64)[:64])


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_data_loader(broker: Broker, run_dir: Path, agent: HandAgent, method: str) -> None:
    """Workers of a real DataLoader hold no socket of ours and deliver every batch."""
    import torch

    agent.say()
    before = broker_sockets()
    with Hold.connect(run_dir=run_dir) as hold:
        assert until(lambda: broker_sockets() - before)
        ours = {int(name[8:-1]) for name in broker_sockets() - before}
        data: Any = Sockets()
        loader: Any = torch.utils.data.DataLoader(
            data, num_workers=2, multiprocessing_context=method
        )
        batches = list(loader)
        hold.step(1)

    assert len(batches) == 8
    assert not ours & {int(n) for batch in batches for n in batch.flatten().tolist()}
