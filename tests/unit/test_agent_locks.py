"""The name in the network namespace by which one agent finds another."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from linkhold.daemon import locks

if TYPE_CHECKING:
    import pytest


def test_who_connects_in_a_loop_is_ended_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two connections there is a rest, however many wait: the loop serves others then."""
    name = "\0linkhold/test-of-locks"
    monkeypatch.setattr(locks, "NAMESPACE_SOCKET", name)
    monkeypatch.setattr(locks, "REST_S", 3600.0)
    held = locks.AgentLocks()
    held._take_namespace()
    clients = [socket.socket(socket.AF_UNIX) for _ in range(20)]

    async def attend() -> int:
        held.attend(asyncio.get_running_loop())
        await asyncio.sleep(0.05)
        return sum(_is_ended(client) for client in clients)

    try:
        for client in clients:
            client.connect(name)
            client.setblocking(False)
        assert asyncio.run(attend()) == 1
    finally:
        held.release()
        for client in clients:
            client.close()


def _is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
