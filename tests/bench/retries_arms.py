"""The ways of trying again that the bench ``retries`` compares: others' by tenacity, and ours."""

from __future__ import annotations

import asyncio
import logging
import time
import urllib.error
from email.message import Message
from pathlib import Path
from typing import TYPE_CHECKING

import tenacity

from client.states import HandAgent
from linkhold.client.listener import Listener
from linkhold.client.retry.calls import Retry
from linkhold.client.retry.dependency import Dependency
from linkhold.client.retry.node import Node
from linkhold.client.retry.policy import Limits, Policy
from linkhold.client.voice import Voice

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from tenacity.wait import wait_base

ANSWER_S = 5.0
LONGEST_S = 30.0
PROBE_S = 1.0
SETTLE_S, RESUME_S, HEARTBEAT_S = 2.0, 10.0, 2.0
"""The agent's own timers for uploads (shared/design.md, "Timers")."""

OTHERS: dict[str, wait_base] = {
    "fixed 1 s": tenacity.wait_fixed(1),
    "exponential, no jitter": tenacity.wait_exponential(multiplier=1, max=LONGEST_S),
    "exponential + 0.5 s additive": tenacity.wait_exponential(multiplier=1, max=LONGEST_S)
    + tenacity.wait_random(0, 0.5),
    "tenacity, full jitter": tenacity.wait_random_exponential(multiplier=1, max=LONGEST_S),
}


async def request(port: int, method: str = "GET") -> None:
    """Make one request; raises what a real client raises: OSError, or HTTPError for a 503."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{method} / HTTP/1.1\r\nHost: shared\r\n\r\n".encode())
        status = await asyncio.wait_for(reader.readline(), ANSWER_S)
    finally:
        writer.close()
    if not status:
        raise ConnectionResetError("the connection ended before an answer")
    if b" 200 " not in status:
        code = int(status.split()[1])
        raise urllib.error.HTTPError("http://shared/", code, "busy", Message(), None)


def others(name: str) -> Callable[[int, Callable[[], Awaitable[None]]], Awaitable[None]]:
    """Return how a client of one of :data:`OTHERS` makes its call; its number does not matter."""

    async def client(number: int, call: Callable[[], Awaitable[None]]) -> None:
        async for attempt in tenacity.AsyncRetrying(
            wait=OTHERS[name], retry=tenacity.retry_if_exception_type(OSError)
        ):
            with attempt:
                await call()

    return client


class Ours:
    """Clients in so many processes on so many nodes, each with a dependency object of its own.

    Processes are played by tasks; those of a node share the file of a breaker. Each node has one
    of ``folders``, where its agent speaks; there are none where no agent runs.
    """

    def __init__(self, processes: int, nodes: int, folders: list[Path]) -> None:
        quiet = logging.getLogger("bench.retries")
        quiet.disabled = True
        # Longer than the bench: what is compared is the pace, not who gives up first.
        policy = Policy(attempts=1000, time_limit_s=1000, longest_pause_s=LONGEST_S)
        sources = [Listener(folder) for folder in folders] or [Listener(Path("/nonexistent"))]
        self.retries = [
            Retry(
                Dependency(
                    f"node {number % nodes} {bool(folders)} {processes}",  # names the file
                    node=_node(sources[number % len(sources)]),
                    # A budget for each node, too, would need a file for each.
                    limits=Limits(budget=None),
                    voice=Voice(quiet),
                ),
                policy,
            )
            for number in range(processes)
        ]

    async def client(self, number: int, call: Callable[[], Awaitable[None]]) -> None:
        """Make the call of client ``number``."""
        await self.retries[number % len(self.retries)].acall(call)


def _node(source: Listener) -> Node:
    return Node(lambda: source)


async def agent(port: int, folder: Path, dice: random.Random) -> None:
    """Play one node's agent: probe the dependency once a second, write the state file.

    Uploads are on hold once probes failed for 2 s, and go again after 10 s of good ones.
    """
    hand = HandAgent(folder)
    held, since_s, works, said_s = False, -RESUME_S, True, 0.0
    await asyncio.sleep(dice.uniform(0, PROBE_S))
    while True:
        passed = await _probe(port)
        now_s = time.monotonic()
        if passed is not works:
            works, since_s = passed, now_s
        lasted_s = now_s - since_s
        before, held = held, lasted_s < RESUME_S if works and held else held
        held = held or (not works and lasted_s >= SETTLE_S)
        if held is not before or now_s - said_s > HEARTBEAT_S:
            hand.say(by_broker=False, uploads="hold" if held else "go")
            said_s = now_s
        await asyncio.sleep(PROBE_S)


async def _probe(port: int) -> bool:
    try:
        await request(port, "HEAD")
    except urllib.error.HTTPError:
        return True  # it answers
    except OSError:
        return False
    return True
