"""Whatever strangers send to the agent is counted and changes nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.control import MAX_STRANGERS_BYTES
from linkhold.door import MAX_CLIENTS, MAX_OF_A_USER, MAX_PRIVILEGED
from support.broker import wait_until
from support.places import NOBODY, TIED
from support.running import agent_of, fleet_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.broker import Collector
    from support.netns import Namespace
    from support.running import Running, TiedBroker
    from support.trainer import Trainer

MOST_RSS = 80 << 20
PREFIX = "linkhold/v1/lab/n1"


def rss(agent: Running) -> int:
    """Return the resident memory of the agent in bytes."""
    pages = Path(f"/proc/{agent.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def descriptors(agent: Running) -> int:
    """Return how many descriptors the agent has open."""
    return len(os.listdir(f"/proc/{agent.pid}/fd"))  # noqa: PTH208


def connect(agent: Running) -> socket.socket:
    """Return a connection to the control socket."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(5)
    sock.connect(str(agent.run_dir / "control.sock"))
    return sock


def is_well(agent: Running) -> bool:
    """Tell whether the agent answers and is not bloated."""
    return agent.cli("status").returncode == 0 and rss(agent) < MOST_RSS


def test_garbage_on_the_control_socket(agent: Running) -> None:
    """Binary, endless and half lines, wrong types: an answer with the reason, or the end of it."""
    lines = [
        *(b"\0\xff\xfe", b"[]", b"1", b"null", b'"x"', b"{", b"{}", b'{"cmd": 1}'),
        *(b'{"cmd": "nonsense"}', b'{"cmd": ["state"]}', b"[" * 30_000, b'{"cmd": NaN}'),
        *(b'{"cmd": "events", "since_s": -1}', b'{"cmd": "events", "since_s": "x"}'),
        *(b'{"cmd": "events", "limit": 1e400}', b'{"cmd": "events", "limit": true}'),
        b'{"cmd": "events", "since_s": 1e308}',
    ]
    for line in lines:
        with connect(agent) as sock, sock.makefile("rb") as answers:
            sock.sendall(line + b"\n")
            assert json.loads(answers.readline())["ok"] is False, line[:80]
    with connect(agent) as sock, suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(b"x" * (10 << 20) + b"\n")
    for part in (b"", b'{"cmd": "sta', b'{"cmd": "state"}'):
        with connect(agent) as sock:
            sock.sendall(part)
    agent.wait_for(lambda s: agent_of(s)["counters"]["control_bad_requests"] >= 8)
    assert is_well(agent)
    assert "Error" not in agent.log()


def test_strangers_cannot_lock_the_operator_out(ns: Namespace, agent: Running) -> None:
    """Many connections that say nothing: refused in words beyond a limit, counted, let go again."""
    before = descriptors(agent)
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(agent)) for _ in range(60)]
        refused = agent.cli("status")
        assert refused.returncode == 1
        assert "too many others" in refused.stderr
        assert "eth0" in refused.stdout
        assert descriptors(agent) <= before + MAX_PRIVILEGED
        assert MAX_CLIENTS < MAX_PRIVILEGED < len(silent)
    wait_until(lambda: agent.cli("status").returncode == 0)
    wait_until(lambda: descriptors(agent) <= before)
    agent.wait_for(lambda s: agent_of(s)["counters"]["control_refused"] >= 60 - MAX_PRIVILEGED)


def test_one_user_does_not_lock_out_the_others(agent: Running) -> None:
    """A user who takes every place that he gets, and keeps it: all others are answered on."""
    greedy = f"""
socks = []
for _ in range(60):
    socks.append(socket.socket(socket.AF_UNIX))
    socks[-1].connect({str(agent.run_dir / "control.sock")!r})
print("ready", flush=True)
while True:
    for sock in socks:
        with contextlib.suppress(OSError):
            sock.sendall(b'{{"cmd":"mode"}}\\n')
    time.sleep(0.2)
"""
    with tied_as(NOBODY, greedy) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        agent.wait_for(lambda s: agent_of(s)["counters"]["control_refused"] >= 40)
        for uid in (NOBODY - 1, 0):
            asking = f"""
sock = socket.socket(socket.AF_UNIX)
sock.connect({str(agent.run_dir / "control.sock")!r})
sock.sendall(b'{{"cmd":"mode"}}\\n')
print(sock.recv(100))
"""
            with tied_as(uid, asking) as asked:
                assert asked.communicate(timeout=10)[0].startswith('b\'{"ok":true'), uid
        other.kill()


def test_who_reads_no_answer_keeps_the_place(agent: Running) -> None:
    """Many answers asked for, none read, and the end of what is said: counted until it is over."""
    before = descriptors(agent)
    deaf = f"""
socks = []
for _ in range(60):
    socks.append(socket.socket(socket.AF_UNIX))
    socks[-1].connect({str(agent.run_dir / "control.sock")!r})
    with contextlib.suppress(OSError):
        socks[-1].sendall(b'{{"cmd":"state"}}\\n' * 100)
        socks[-1].shutdown(socket.SHUT_WR)
    time.sleep(0.02)
print("ready", flush=True)
time.sleep(100)
"""
    with tied_as(NOBODY, deaf) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert descriptors(agent) <= before + MAX_OF_A_USER
        wait_until(lambda: descriptors(agent) <= before, 25, "he is let go, and still there")
        other.kill()


def test_a_strangers_line_is_short(agent: Running) -> None:
    """A line as long as only root's may be is refused in words, and read no further."""
    long = f"""
sock = socket.socket(socket.AF_UNIX)
sock.connect({str(agent.run_dir / "control.sock")!r})
with contextlib.suppress(OSError):
    sock.sendall(b"[" + b"1," * {MAX_STRANGERS_BYTES} + b"1]\\n")
print(sock.recv(1000).decode())
"""
    with tied_as(NOBODY, long) as other:
        said = json.loads(other.communicate(timeout=10)[0])
    assert said == {
        "ok": False,
        "error": f"a request of yours has at most {MAX_STRANGERS_BYTES} bytes",
    }


def test_one_who_does_nothing_but_connect_keeps_nobody_out(agent: Running) -> None:
    """The queue of the socket is always full then: root waits for a turn, and has it."""
    connecting = f"""
print("ready", flush=True)
while True:
    with socket.socket(socket.AF_UNIX) as sock, contextlib.suppress(OSError):
        sock.connect({str(agent.run_dir / "control.sock")!r})
"""
    with tied_as(NOBODY, connecting) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        agent.wait_for(lambda s: agent_of(s)["counters"]["control_refused"] >= 100)
        assert [agent.cli("status").returncode for _ in range(3)] == [0, 0, 0]
        other.kill()


def tied_as(uid: int, script: str) -> subprocess.Popen[str]:
    """Start a script as a user; it ends with the test process."""
    become = f"import contextlib, os, socket, time; os.setgroups([]); os.setuid({uid})\n"
    return subprocess.Popen(
        [*TIED, sys.executable, "-c", become + script], stdout=subprocess.PIPE, text=True
    )


def test_followers_that_leave_or_do_not_read_cost_nothing(ns: Namespace, agent: Running) -> None:
    """Followers that left without an event are noticed; one that reads nothing is dropped."""
    before, peer = descriptors(agent), ns.index("p0")
    for _ in range(MAX_PRIVILEGED + 8):
        with connect(agent) as sock:
            sock.sendall(b'{"cmd": "follow"}\n')
            time.sleep(0.005)
    wait_until(lambda: descriptors(agent) <= before, 2)
    assert agent.cli("status").returncode == 0

    before = descriptors(agent)  # anew: the first looks of a start have closed theirs by now
    with connect(agent) as deaf:
        deaf.sendall(b'{"cmd": "follow"}\n')
        wait_until(lambda: descriptors(agent) > before)
        for number in range(1000):
            ns.flip(peer, up=bool(number % 2))
            time.sleep(0.003)
        wait_until(lambda: descriptors(agent) <= before, 15)
    assert is_well(agent)


def test_garbage_on_leg_a_does_not_arrive(agent: Running, trainers: Callable[..., Trainer]) -> None:
    """Trainers that flood every topic, or speak no MQTT, cost nobody the connection."""
    listener = trainers(agent)
    for junk in (
        b"\0" * 1000,
        b"\x10\xff\xff\xff\x7f",
        b"GET / HTTP/1.0\r\n\r\n",
        os.urandom(4096),
    ):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(agent.trainer_socket))
            sock.sendall(junk)
    forger = trainers(agent, subscribe=False)
    for size in (0, 1000, 1_000_000):
        forger.publish("linkhold/v1/default/x/state", os.urandom(size))

    assert listener.closed == 0
    assert agent_of(agent.state())["leg_a"] == "up"
    assert is_well(agent)


def test_garbage_as_commands_of_the_fleet(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """No JSON, wrong JSON, retained, without expiry, huge, foreign topics: ignored and counted."""
    broker = fleets().start()
    fleet = collect(broker)
    fleet.publish(f"{PREFIX}/cmd/replay", b'{"request": "r", "since": "x"}', retain=True)
    agent = agents(fleet_config(broker.port)).start().wait_ready()
    agent.wait_for(lambda s: agent_of(s)["leg_b"].startswith("up"))
    for payload in (b"", b"\xff\0", b"{}", b"[" * 4000, b'{"request": 1}', os.urandom(500_000)):
        for command in ("replay", "diagnose", "maintenance", "nonsense"):
            fleet.publish(f"{PREFIX}/cmd/{command}", payload, expiry_s=60)
            fleet.publish(f"{PREFIX}/cmd/{command}", payload)
    for topic in ("state", "status", "event/link.down", "cmd/replay/deeper"):
        fleet.publish(f"{PREFIX}/{topic}", os.urandom(1000), expiry_s=60)
    good = b'{"request": "good", "since": "2000-01-01T00:00:00.000Z"}'
    fleet.publish(f"{PREFIX}/cmd/replay", good, expiry_s=60)

    wait_until(lambda: fleet.on("event/agent.replayed"))
    agent.wait_for(lambda s: agent_of(s)["counters"]["requests_ignored"] >= 12)
    assert agent.types().count("agent.replayed") == 1
    assert agent_of(agent.state())["leg_b"].startswith("up")
    assert is_well(agent)
