"""What ranks do in the tests of agreement: loops with the few lines of linkhold."""

from __future__ import annotations

import random
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.rank_here import train
from client.states import HOLD
from linkhold.client.agreement import cadence

if TYPE_CHECKING:
    from client.rank_here import Here
    from linkhold.client import Hold


def hold_together(
    here: Here, at: int = 20, steps: int = 80, *, begin: bool = True
) -> dict[str, Any]:
    """The last rank's agent asks for a hold at a step, and ends it after three slices.

    Without ``begin`` the first step finds that there are ranks, not the making of the Hold.
    """
    hold, beats, held_at = here.hold(begin=begin), [0], []

    def beat() -> None:
        beats[0] += 1
        if here.last and beats[0] == 3:
            here.agent.say()

    with hold:
        hold.on_wait = beat
        for step in range(steps):
            train()
            if here.last and step == at:
                here.agent.say(**HOLD)
            before_s = hold.held_s
            hold.step(step)
            if hold.held_s != before_s:
                held_at.append(step)
                here.mark("resumed")
        together, ranks = hold._together, hold.ranks
        rounds = together.rounds.count if together else 0
    return {"held_at": held_at, "held_s": hold.held_s, "rounds": rounds, "ranks": ranks}


def late(here: Here) -> dict[str, Any]:
    """The last rank comes 1.5 s after the others."""
    if here.last:
        time.sleep(1.5)
    return hold_together(here, at=5, steps=40)


def saves(here: Here, script: dict[str, list[Any]], steps: int = 60, **settings: Any) -> Any:
    """Each rank's agent follows a script ``{rank: [[step, fields], ...]}``; all ranks save."""
    import torch
    import torch.distributed as dist

    mine = dict(script.get(str(here.rank), []))
    only_first = settings.pop("only_first", False)
    fails_at = settings.pop("fails_at", None)
    saved: list[int] = []
    with here.hold(**settings) as hold:
        for step in range(steps):
            train()
            if step in mine:
                here.agent.say(**mine[step])
            hold.step(step)
            if (here.rank == 0 or not only_first) and hold.checkpoint_due(step):
                saved.append(step)
                try:
                    with hold.saving():
                        if not only_first:
                            dist.all_reduce(torch.ones(4))
                        if here.last and step == fails_at:
                            Path("/dev/full").write_text("a full disk")
                except OSError:
                    # Its pauses begin at 10 s: a test need not wait for that.
                    retry_soon(hold)
            if hold.stop_due:
                return {"saved": saved, "stopped": step, "left": hold.seconds_left}
    return {"saved": saved, "stopped": None}


def retry_soon(hold: Hold) -> None:
    """Cut the pause after a failed save to 20 ms."""
    assert hold._together is not None
    checkpoints = hold._together.checkpoints
    soon_ns = time.monotonic_ns() + 20_000_000
    checkpoints._memory = replace(checkpoints._memory, retry_ns=soon_ns)


def random_agents(here: Here, seed: int, steps: int = 150) -> list[Any]:
    """Every agent says random things at random steps; what this rank did, step by step."""
    import torch
    import torch.distributed as dist

    mine = random.Random(f"{seed} {here.rank}")
    did: list[Any] = []
    with here.hold(checkpoint_every_steps=40, hold_on=("network",), max_hold_s=60) as hold:
        hold.on_wait = lambda: here.agent.say() if mine.random() < 0.7 else None
        for step in range(steps):
            train()
            if mine.random() < 0.03:
                here.agent.say(**_whim(mine))
            before_s = hold.held_s
            hold.step(step)
            if hold.held_s != before_s:
                did.append(["held", step])
            if hold.checkpoint_due(step):
                did.append(["saved", step, hold.local_only])
                with hold.saving():
                    dist.all_reduce(torch.ones(4))
            if hold.stop_due:
                did.append(["stop", step, hold.stop_reason is not None])
    return did


def _whim(dice: random.Random) -> dict[str, Any]:
    number = dice.randrange(3)
    checkpoint = {"id": f"power-{number}", "reason": "on battery", "every_s": None}
    stop = {"id": f"spot-terminate-{number}", "reason": "spot", "deadline_mono_ns": None}
    return dice.choice(
        [
            HOLD,
            {},
            {"network": "down", "holds": ["network"]},
            {"power": "battery", "checkpoint": checkpoint},
            {"power": "battery", "checkpoint": checkpoint, "training": "hold"},
            {"stop": stop, "checkpoint": {**checkpoint, "id": "spot"}},
        ]
    )


def models(here: Here, shape: str) -> dict[str, Any]:
    """A DDP or FSDP model with gradient accumulation; a checkpoint is a collective, as in DCP."""
    import torch
    import torch.distributed as dist

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    whole: Any = model
    if shape == "ddp":
        whole = torch.nn.parallel.DistributedDataParallel(model)
    else:
        from torch.distributed.fsdp import fully_shard

        whole = fully_shard(model)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.01)
    saved, losses = [], []
    with here.hold() as hold:
        hold.on_wait = here.agent.say
        for step in range(24):
            for micro in range(4):
                if shape == "ddp" and micro < 3:
                    with whole.no_sync():
                        loss = whole(torch.ones(2, 8)).square().mean()
                        loss.backward()
                else:
                    loss = whole(torch.ones(2, 8)).square().mean()
                    loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
            if step == 5 and here.rank == 0:
                here.agent.say(checkpoint={"id": "power-1", "reason": "on battery"})
            if step == 12 and here.last:
                here.agent.say(**HOLD)
            hold.step(step)
            if hold.checkpoint_due(step):
                with hold.saving():
                    parts: list[Any] = [None] * here.world
                    dist.all_gather_object(parts, sorted(whole.state_dict()))
                    assert len(parts) == here.world
                saved.append(step)
    return {"saved": saved, "losses": losses, "held": hold.held_s > 0}


def beats(here: Here) -> list[float]:
    """Rank 0 is slow to come to a step; when the others' watchdogs were fed."""
    found: list[float] = []
    with here.hold() as hold:
        hold.on_wait = lambda: found.append(time.monotonic())
        for step in range(4):
            train()
            if step == 3:
                here.mark("began")
                if here.rank == 0:
                    time.sleep(2.0)
            hold.step(step)
    return found


def cable_pulled(here: Here, down_s: float) -> dict[str, Any]:
    """Rank 0's node loses its link for a while; its agent says so, and some time after it is back.

    The link is set by a process beside the rank, as a person at the rack would.
    """
    script = f"ip link set eth0 down; sleep {down_s}; ip link set eth0 up"
    held_at, gaps = [], []
    pulled: list[subprocess.Popen[bytes]] = []

    def look() -> None:
        if pulled and pulled[0].poll() is not None:
            pulled.clear()
            here.agent.say()

    with here.hold(hold_on=("network",)) as hold:
        hold.on_wait = look
        last_s = time.monotonic()
        for step in range(120):
            train()
            if step == 30 and here.rank == 0:
                pulled.append(
                    subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-c", script])
                )
                here.agent.say(network="down", holds=["network"], uploads="hold")
            before_s = hold.held_s
            hold.step(step)
            if hold.held_s != before_s:
                held_at.append(step)
            now_s = time.monotonic()
            gaps.append(now_s - last_s)
            last_s = now_s
    return {"held_at": held_at, "longest_s": max(gaps), "steps": len(gaps)}


def alone(here: Here) -> dict[str, Any]:
    """Without ``agree`` nothing is held, and a line says what to write."""
    here.agent.say(**HOLD)
    with here.hold(agree=None) as hold:
        for step in range(5):
            train()
            hold.step(step)
        return {"held_s": hold.held_s}


def measure(here: Here, steps: int, step_s: float) -> dict[str, Any]:
    """Steps of a given length, as in real training: what each ``step()`` took, in ns."""
    import torch
    import torch.distributed as dist

    cadence.LONGEST_US = 2_000_000
    took: list[int] = []
    with here.hold() as hold:
        for step in range(steps):
            time.sleep(step_s)
            dist.all_reduce(torch.ones(8))
            began_ns = time.perf_counter_ns()
            hold.step(step)
            took.append(time.perf_counter_ns() - began_ns)
        together = hold._together
        rounds, every = (together.rounds.count, together.rounds.every) if together else (0, 1)
        between_ns = _between(hold)
    return {"took": took, "every": every, "between_ns": between_ns, "rounds": rounds}


def _between(hold: Hold) -> float:
    """Return what a step costs that does not agree, in ns: the best of some thousands."""
    hold._ahead = 1 << 30
    hold._attention = False
    best = float("inf")
    for _ in range(20):
        began_ns = time.perf_counter_ns()
        for step in range(1000):
            hold.step(step)
        best = min(best, (time.perf_counter_ns() - began_ns) / 1000)
    return best
