"""Retries against real servers that fail, with the errors that real clients make of it."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
import time
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import requests

from client.states import HandAgent
from linkhold.client.retry import Policy, Retry, counters, family, retry
from support import netns
from support.faulty_server import FAULTS, FaultyServer
from support.retrying import RetryWorld

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIMEOUT_S = 0.3
RETRY_AFTER_S = 1.0
boto3: Any = importlib.import_module("boto3")
botocore_config: Any = importlib.import_module("botocore.config")
s3fs: Any = importlib.import_module("s3fs")


def by_requests(url: str) -> bytes:
    """Fetch with requests."""
    answer = requests.get(url, timeout=TIMEOUT_S)
    answer.raise_for_status()
    return answer.content


def by_urllib(url: str) -> bytes:
    """Fetch with the standard library."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read()
        return content


async def awaited(url: str) -> bytes:
    """Fetch with aiohttp."""
    limits = aiohttp.ClientTimeout(sock_connect=TIMEOUT_S, sock_read=TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=limits, raise_for_status=True) as session,
        session.get(url) as answer,
    ):
        return await answer.read()


def by_aiohttp(url: str) -> bytes:
    """Fetch with aiohttp in a loop of its own."""
    return asyncio.run(awaited(url))


def _keys(url: str) -> dict[str, Any]:
    return {
        "endpoint_url": url,
        "aws_access_key_id": "x",
        "aws_secret_access_key": "x",
        "region_name": "us-east-1",
    }


def by_boto3(url: str) -> bytes:
    """Fetch with boto3, whose own retries are off: one layer is enough."""
    config = botocore_config.Config(
        connect_timeout=TIMEOUT_S,
        read_timeout=TIMEOUT_S,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": "path"},
    )
    client = boto3.session.Session().client("s3", config=config, **_keys(url))
    try:
        content: bytes = client.get_object(Bucket="bucket", Key="key")["Body"].read()
        return content
    finally:
        client.close()


CLIENTS = (by_requests, by_urllib, by_aiohttp, by_boto3)
every_client = pytest.mark.parametrize("fetch", CLIENTS, ids=lambda fetch: fetch.__name__)
SORTS = {"reset": "connection", "hang": "timeout", "half": "connection", "busy": "server"}


def impatient() -> tuple[RetryWorld, Retry]:
    """Return a retry in real time with short pauses, whose breaker stays closed."""
    world = RetryWorld(failures=100)
    dependency = world.dependency
    dependency.now_s = time.monotonic
    return world, Retry(dependency, Policy(first_pause_s=0.02, longest_pause_s=0.05))


@every_client
@pytest.mark.parametrize("fault", FAULTS)
def test_real_faults_are_survived(fetch: Callable[[str], bytes], fault: str) -> None:
    """A server that fails twice costs two attempts, whatever the fault and the client."""
    world, again = impatient()
    seen: list[str] = []

    def call() -> bytes:
        try:
            return fetch(server.url)
        except Exception as error:
            found = family(error)
            seen.append(found.name if found else repr(error))
            raise

    with FaultyServer(fault) as server:
        began_s = time.monotonic()
        assert again.call(call) == b"fine"
        took_s = time.monotonic() - began_s

    again_by_itself = fault == "reset" and fetch is by_aiohttp  # once, for idempotent requests
    assert seen == [SORTS[fault]] * (1 if again_by_itself else 2)
    assert world.dependency.counters["attempts"] == len(seen) + 1
    assert took_s >= (2 * RETRY_AFTER_S if fault == "busy" else 0)


def test_s3fs_is_survived() -> None:
    """What s3fs translates from botocore keeps its family."""
    world, again = impatient()
    with FaultyServer("busy") as server:
        storage = s3fs.S3FileSystem(
            key="x",
            secret="x",
            endpoint_url=server.url,
            skip_instance_cache=True,
            config_kwargs={"retries": {"total_max_attempts": 1}},
        )
        storage.retries = 1
        assert again.call(storage.cat_file, "bucket/key", start=0, end=4) == b"fine"

    assert world.dependency.counters["failed"] == 2


@every_client
def test_a_closed_port_is_a_family(fetch: Callable[[str], bytes]) -> None:
    """Connection refused is tried again."""
    with FaultyServer("reset") as server:
        url = server.url

    with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own
        fetch(url)
    found = family(caught.value)
    assert found is not None
    assert found.name == "connection"


@pytest.mark.skipif(bool(netns.missing()), reason=netns.missing())
@every_client
def test_failing_names_are_a_family(fetch: Callable[[str], bytes]) -> None:
    """In a namespace without network no name is found, and every client's error says dns."""

    def call() -> str:
        try:
            fetch("http://storage.example.com/")
        except Exception as error:  # noqa: BLE001
            found = family(error)
            return found.name if found else repr(error)
        return "no error"

    with netns.Namespace() as namespace:
        assert namespace.call(call) == "dns"


def test_torchs_store_errors_are_a_family() -> None:
    """A store that is not there, and one that does not answer in time, are tried again."""
    dist: Any = importlib.import_module("torch.distributed")

    with FaultyServer("reset") as server:
        port = server.port
    with pytest.raises(RuntimeError) as gone:
        dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=1))
    store = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=1), wait_for_workers=False
    )
    with pytest.raises(RuntimeError) as late:
        store.wait(["never"], timedelta(milliseconds=100))

    for caught in (gone, late):
        found = family(caught.value)
        assert found is not None, caught.value
        assert found.name == "store"


def test_the_async_form_against_a_real_server() -> None:
    """Tasks that share a dependency retry beside each other, without blocking the loop."""
    world, again = impatient()
    ticks = 0

    async def main() -> list[bytes]:
        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        found = await asyncio.gather(*(again.acall(awaited, server.url) for _ in range(4)))
        ticking.cancel()
        return found

    with FaultyServer("busy", times=4) as server:
        assert asyncio.run(main()) == [b"fine"] * 4

    assert ticks > 50
    assert world.dependency.counters["attempts"] == 8


def test_a_real_listener_stops_attempts(tmp_path: Path) -> None:
    """The agent's state file alone holds calls back, and lets them go, in a forked child too."""
    agent = HandAgent(tmp_path)
    agent.say(by_broker=False, network="down")
    again = retry("test listener", run_dir=tmp_path, spread_s=0.2, time_limit_s=20)
    back = threading.Timer(1.5, lambda: agent.say(by_broker=False, network="ok"))
    back.start()
    began_s = time.monotonic()
    child = os.fork()
    if child == 0:
        waited_s = 0.0
        try:
            waited_s = again.call(lambda: time.monotonic() - began_s)
        finally:
            os._exit(0 if waited_s > 1.4 else 1)
    waited_s = again.call(lambda: time.monotonic() - began_s)
    back.join()
    again.dependency.node.rest()

    assert 1.4 < waited_s < 10
    assert os.waitpid(child, 0)[1] == 0
    assert counters()["test listener"]["held_calls"] == 1


def test_without_an_agent_everything_goes(tmp_path: Path) -> None:
    """Where no agent ever was, the first call goes within a moment."""
    again = retry("test nobody", run_dir=tmp_path)
    began_s = time.monotonic()
    answer = again.call(lambda: "done")
    took_s = time.monotonic() - began_s
    again.dependency.node.rest()

    assert answer == "done"
    assert took_s < 2.0
