"""Ends of idle connections, each a process of its own: `python idle_peer.py ROLE ...`.

``serve PORT``: echoes. ``talk COVER HOST PORT``: connects. ``rank COVER RANK HOST PORT``: a torch
TCPStore and Gloo group of two. COVER is ``hold`` (by linkhold's client, with small times), ``flag``
(SO_KEEPALIVE alone), ``idle`` (and an idle time of 1 s) or ``none``. The last two print "ready" and
use their connections at each line on standard input: at the first they cover them then and print
"ready" again, at the second they print what became of each.
"""

from __future__ import annotations

import datetime as dt
import importlib
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 4


def serve(port: str) -> None:
    """Echo on every connection until killed."""
    with socket.create_server(("0.0.0.0", int(port)), backlog=64) as listener:
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    while data := connection.recv(64):
        connection.sendall(data)


def talk(cover: str, host: str, port: str, probes: str = "127") -> None:
    """Hold one idle connection."""
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        if cover in {"flag", "idle"}:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if cover == "idle":
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)

        def use() -> None:
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"

        _wait()
        use()
        _cover(cover, int(probes))
        _wait()
        _report("socket", use)


def rank(cover: str, number: str, host: str, port: str) -> None:
    """Be one rank of two of a Gloo group whose store is rank 0's."""
    torch: Any = importlib.import_module("torch")  # untyped here: not everybody has it
    dist: Any = importlib.import_module("torch.distributed")
    limit = dt.timedelta(seconds=20)
    store = dist.TCPStore(host, int(port), 2, number == "0", timeout=limit)
    dist.init_process_group("gloo", store=store, rank=int(number), world_size=2, timeout=limit)
    dist.all_reduce(torch.ones(1))
    _wait()
    store.set("early", "x")
    dist.all_reduce(torch.ones(1))
    _cover(cover, 127)
    _wait()
    if number == "1":  # the one behind the firewall
        _report("store", lambda: store.add("late", 1))  # set() would not wait for an answer
    _report("gloo", lambda: dist.all_reduce(torch.ones(1)))
    os._exit(0)  # a group whose connections are dead does not end by itself


def _cover(cover: str, probes: int) -> None:
    if cover == "hold":
        import logging

        from linkhold.client import Hold

        logging.basicConfig(level=logging.ERROR)
        hold = Hold.connect(run_dir="/nonexistent", wait_s=0)
        assert hold.cover_sockets(time_s=1, interval_s=1, probes=probes)["covered"]


def _wait() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def _report(what: str, use: Callable[[], object]) -> None:
    try:
        use()
    except (OSError, RuntimeError, AssertionError) as error:
        print(what, "dead", type(error).__name__, flush=True)
    else:
        print(what, "alive", flush=True)


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"serve": serve, "talk": talk, "rank": rank}
    roles[sys.argv[1]](*sys.argv[2:])
