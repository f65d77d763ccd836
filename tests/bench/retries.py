"""What retries do to a shared dependency that comes back: 200 clients, 30 s down, 50 requests/s.

The model of shared/facts/trainer.md "Retries", in real time with real connections. All arms run
side by side against a port each of one server, begun 0.13 s apart. Others' way of waiting is
tenacity's; ours is the code of ``linkhold.client.retry``. Lock-step peaks are lower bounds: one
process makes all the requests.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import retries_arms as arms
from bench.rows import Row, row
from client.states import HandAgent
from linkhold.client.retry import files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Client = Callable[[int, Callable[[], Awaitable[None]]], Awaitable[None]]

CLIENTS, PER_S, BIN_S = 200, 50, 0.1
DOWN_S, QUICK_DOWN_S = 30.0, 8.0
PATIENCE_S, QUICK_PATIENCE_S = 120.0, 40.0
APART_S = 0.13
MOST_ATTEMPTS, MOST_PEAK = 2.5, 3.0
NODES = 25
"""The breaker is the node's: 8 processes of a node learn from each other; a lone one has nobody."""
OURS = {
    "linkhold, 25 nodes of 8 processes, agent": (NODES, True),
    "linkhold, 25 nodes of 8 processes, no agent": (NODES, False),
    "linkhold, 200 nodes of 1 process, agent": (CLIENTS, True),
    "linkhold, 200 nodes of 1 process, no agent": (CLIENTS, False),
}
NAMES = (*arms.OTHERS, *OURS)


@dataclass
class Arm:
    """One way, and what its clients saw."""

    name: str
    port: int
    attempts: int = 0
    done: int = 0
    last_s: float = 0.0


def run(*, quick: bool = False) -> list[Row]:
    """Measure; ``quick`` has a shorter outage."""
    down_s, patience_s = (QUICK_DOWN_S, QUICK_PATIENCE_S) if quick else (DOWN_S, PATIENCE_S)
    with tempfile.TemporaryDirectory(prefix="linkhold-retries-") as folder:
        os.environ[files.FOLDER_VARIABLE] = folder
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.retries_server"],
            cwd=Path(__file__).resolve().parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            found, ups, arrived = asyncio.run(_all(server, Path(folder), down_s, patience_s))
        finally:
            server.kill()
            server.wait()
    capacity = PER_S * BIN_S
    rows = [row(f"capacity of the server per {BIN_S * 1e3:.0f} ms", "requests", capacity)]
    for arm in found:
        rows += _rows(arm, ups[arm.name], arrived[arm.name]["arrivals"], capacity)
    return rows


async def _all(
    server: subprocess.Popen[str], folder: Path, down_s: float, patience_s: float
) -> tuple[list[Arm], dict[str, float], dict[str, Any]]:
    assert server.stdin is not None
    assert server.stdout is not None
    order = {"names": NAMES, "per_s": PER_S, "burst": PER_S * BIN_S}
    print(json.dumps(order), file=server.stdin, flush=True)
    ports = json.loads(server.stdout.readline())
    found = [Arm(name, ports[name]) for name in NAMES]
    ups: dict[str, float] = {}
    watched = next(name for name, (_, agent) in OURS.items() if agent)
    async with _Agents(ports[watched], folder) as folders:
        ways = _ways(folders)
        tasks = []
        for arm in found:
            ups[arm.name] = time.monotonic() + down_s
            print(f"{NAMES.index(arm.name)} {ups[arm.name]}", file=server.stdin, flush=True)
            tasks.append(asyncio.create_task(_play(arm, ways[arm.name], down_s + patience_s)))
            await asyncio.sleep(APART_S)
        await asyncio.gather(*tasks)
    server.stdin.close()
    return found, ups, json.loads(server.stdout.readline())


def _ways(folders: list[Path]) -> dict[str, Client]:
    ways: dict[str, Client] = {name: arms.others(name) for name in arms.OTHERS}
    for name, (nodes, agent) in OURS.items():
        ways[name] = arms.Ours(CLIENTS, nodes, folders if agent else []).client
    return ways


class _Agents:
    """The agents of all nodes, which have been there for a while when the outage begins."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._folders = [folder / str(number) for number in range(NODES)]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> list[Path]:
        dice = random.Random(7)
        for folder in self._folders:
            folder.mkdir()
            HandAgent(folder).say(by_broker=False)
            self._tasks.append(asyncio.create_task(arms.agent(self._port, folder, dice)))
        return self._folders

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _play(arm: Arm, client: Client, limit_s: float) -> None:
    """Let every client of an arm make its one call; those not done in time are cancelled."""

    async def call() -> None:
        arm.attempts += 1
        await arms.request(arm.port)

    async def one(number: int) -> None:
        await client(number, call)
        arm.done += 1
        arm.last_s = time.monotonic()

    tasks = [asyncio.create_task(one(number)) for number in range(CLIENTS)]
    _, late = await asyncio.wait(tasks, timeout=limit_s)
    for task in late:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert result is None or isinstance(result, asyncio.CancelledError), (
            f"{arm.name}: a client ended with {result!r}"
        )


def _rows(arm: Arm, up_s: float, arrivals: list[float], capacity: float) -> list[Row]:
    aimed = arm.name in OURS and OURS[arm.name][0] == NODES
    per_client = arm.attempts / CLIENTS
    peak = max(Counter(int((at_s - up_s) / BIN_S) for at_s in arrivals if at_s >= up_s).values())
    last_s = arm.last_s - up_s
    done = f"{arm.name}: last of {arm.done}/{CLIENTS} done after recovery"
    return [
        row(
            f"{arm.name}: attempts per client",
            "",
            per_client,
            most=MOST_ATTEMPTS if aimed else None,
        ),
        row(
            f"{arm.name}: most in {BIN_S * 1e3:.0f} ms after recovery",
            "requests",
            peak,
            reference=capacity,
            most_ratio=MOST_PEAK if aimed else None,
        ),
        row(done, "s", last_s),
    ]
