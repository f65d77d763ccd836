"""How jobs of several ranks end, well or not."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

from client.rank_here import STEP_S, train, wait_for
from client.states import HOLD
from linkhold.client import GiveUp

if TYPE_CHECKING:
    from client.rank_here import Here


def uneven(here: Here, *, join: bool) -> dict[str, Any]:
    """Rank 0 has more batches than the others, which close their Hold and go on otherwise."""
    import torch
    from torch.distributed.algorithms.join import Join

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    steps = 40 if here.rank == 0 else 25
    hold = here.hold()

    def loop() -> None:
        for step in range(steps):
            if join:
                model(torch.ones(1, 4)).sum().backward()
            elif step < 25:
                train()
            time.sleep(STEP_S)
            hold.step(step)
        hold.close()

    if join:
        with Join([model]):
            loop()
    else:
        loop()
    return {"steps": steps, "due": hold.checkpoint_due(0)}


def give_up(here: Here, max_hold_s: float, *, leave: bool = False) -> None:
    """One node asks for a hold that never ends; with ``leave`` its end is ``exit()``."""
    os.environ["LINKHOLD_STOP_MARKER"] = str(here.folder / f"stop-{here.rank}")
    with here.hold(max_hold_s=max_hold_s if here.last else 600.0) as hold:
        if here.rank == 0:
            here.agent.say(**HOLD)
        for step in range(50):
            train()
            try:
                hold.step(step)
            except GiveUp:
                if leave:
                    hold.exit()
                raise


def peer_goes(here: Here, how: str) -> None:
    """The last rank dies, or stops answering, in the middle of a hold."""
    with here.hold() as hold:

        def beat() -> None:
            if here.last and hold.held_s > 0.6:
                (here.folder / "gone").write_text(str(time.monotonic()))
                os.kill(os.getpid(), signal.SIGKILL if how == "dies" else signal.SIGSTOP)

        hold.on_wait = beat
        here.agent.say(**HOLD)
        for step in range(50):
            train()
            hold.step(step)


def slow_save(here: Here, left_s: float | None, *, never: bool = False) -> None:
    """Only rank 0 saves, for a second, before all end; with ``never`` it does not end."""
    os.environ["LINKHOLD_STOP_MARKER"] = str(here.folder / f"stop-{here.rank}")
    hold = here.hold()
    for step in range(1000):
        train() if not never or here.rank or step < 5 else time.sleep(0.05)
        if step == 3 and here.last:
            ends_ns = None if left_s is None else time.monotonic_ns() + int(left_s * 1e9)
            stop = {"id": "spot-1", "reason": "spot notice", "deadline_mono_ns": ends_ns}
            here.agent.say(stop=stop)
        hold.step(step)
        if hold.stop_due:
            here.mark("told")
            if here.rank == 0:
                with hold.saving():
                    time.sleep(1.0)
                here.mark("saved")
            if never and here.rank == 0:
                wait_for(here.folder / "1.json")
            hold.exit()


def stop_withdrawn(here: Here) -> dict[str, Any]:
    """A stop is asked for, not obeyed yet, and taken back."""
    seen = []
    with here.hold() as hold:
        for step in range(40):
            train()
            if here.rank == 0 and step == 5:
                here.agent.say(stop={"id": "spot-1", "reason": "spot"})
            if here.rank == 0 and step == 15:
                here.agent.say()
            hold.step(step)
            seen.append(hold.stop_due)
    return {"seen": seen}


def signalled(here: Here, *, held: bool) -> list[list[int]]:
    """The last rank gets a signal, in training or in a hold, whose handler asks to stop."""
    saved, stopped = [], []
    with here.hold() as hold:
        signal.signal(signal.SIGTERM, lambda *_: hold.ask_to_stop("SIGTERM"))

        def on_wait() -> None:
            if here.last and hold.waiting_for:
                os.kill(os.getpid(), signal.SIGTERM)

        hold.on_wait = on_wait
        for step in range(200):
            train()
            if here.last and step == 5:
                here.agent.say(training="hold") if held else os.kill(os.getpid(), signal.SIGTERM)
            hold.step(step)
            if hold.checkpoint_due(step):
                with hold.saving():
                    saved.append(step)
            if hold.stop_due:
                stopped.append(step)
                break
    return [saved, stopped]


def fits(here: Here, left_s: float) -> dict[str, Any]:
    """One rank's saves are slow, another one's time is short."""
    with here.hold(checkpoint_every_steps=5) as hold:
        for step in range(40):
            train()
            if step == 10 and here.last:
                ends_ns = time.monotonic_ns() + int(left_s * 1e9)
                here.agent.say(stop={"id": "s", "reason": "spot", "deadline_mono_ns": ends_ns})
            hold.step(step)
            if hold.checkpoint_due(step):
                with hold.saving():
                    time.sleep(0.2 if here.rank == 0 else 0.0)
            if hold.stop_due:
                return {"local_only": hold.local_only, "left": hold.seconds_left, "step": step}
    return {}


def leaves_out(here: Here, at: int) -> None:
    """The last rank leaves out one ``hold.step()``; nothing else makes the ranks meet."""
    with here.hold() as hold:
        for step in range(30 + here.last):
            time.sleep(0.002)
            if not (here.last and step == at):
                hold.step(step)


def one_fails(here: Here) -> None:
    """The last rank's loop raises; its Hold is left by the exception."""
    with here.hold() as hold:
        for step in range(50):
            if here.last and step == 7:
                raise ValueError("bad batch")
            time.sleep(STEP_S)
            hold.step(step)


def forks(here: Here) -> dict[str, Any]:
    """A data worker is forked from a rank, and takes steps with the copy of its Hold."""
    with here.hold() as hold:
        for step in range(20):
            train()
            hold.step(step)
            if step == 5:
                pid = os.fork()
                if not pid:
                    for other in range(100):
                        hold.step(other)
                    os._exit(hold.ranks)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return {"ranks": hold.ranks, "child": code}


def destroyed_first(here: Here) -> int:
    """torch.distributed is ended before the Hold is closed."""
    import torch.distributed as dist

    hold = here.hold()
    for step in range(10):
        train()
        hold.step(step)
    dist.destroy_process_group()
    hold.close()
    return hold.ranks


def in_debug_mode(here: Here) -> float:
    """What torch checks in its debug mode is no obstacle; the group's timeout is still found."""
    from torch._C._distributed_c10d import DebugLevel, get_debug_level

    assert get_debug_level() == DebugLevel.DETAIL
    with here.hold(max_hold_s=600.0) as hold:
        for step in range(10):
            train()
            hold.step(step)
        return hold._pause.max_hold_s
