"""The audit and the namespace helper on real sockets, in network namespaces."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.children import ask, ourselves
from linkhold.model import Unavailable
from linkhold.model.jobs import Training
from linkhold.model.keepalive import Verdict
from linkhold.survey.audit import audit
from linkhold.survey.files import Reader
from linkhold.survey.inside import Visit, visit
from support.netns import Namespace
from support.places import as_nobody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.audit import Audited

NODE, PEER, PEER_6 = "10.0.0.1", "10.0.0.9", "fd00::9"
PORT = 7000
TIME, RETRIES, SYN = "tcp_keepalive_time", "tcp_retries2", "tcp_syn_retries"
READER = Reader(Path("/"))

# Opens one socket of each sort, says their local ports, and holds them until it is killed. `old`
# is armed while the namespace has Linux's own two hours. Nobody reads what `full` writes.
HOLDER = """
import json, socket, sys, time
from pathlib import Path

def connect(address, port, *options):
    made = socket.create_connection((address, port), timeout=10)
    for level, name, value in options:
        made.setsockopt(level, name, value)
    return made

ALIVE = (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
IDLE = (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 45)
peer, peer_6, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
held = {"old": connect(peer, port, ALIVE)}
Path("/proc/sys/net/ipv4/tcp_keepalive_time").write_text("60")
held["none"] = connect(peer, port)
held["alive"] = connect(peer, port, ALIVE)
held["idle"] = connect(peer, port, ALIVE, IDLE)
held["none6"] = connect(peer_6, port)
held["alive6"] = connect(peer_6, port, ALIVE)
held["mapped"] = socket.socket(socket.AF_INET6)
held["mapped"].setsockopt(*ALIVE)
held["mapped"].connect(("::ffff:" + peer, port))
held["full"] = connect(peer, port, ALIVE)
held["full"].setblocking(False)
try:
    while True:
        held["full"].send(bytes(65536))
except BlockingIOError:
    pass
listener = socket.create_server(("127.0.0.1", 0))
held["here"] = connect(*listener.getsockname())
print(json.dumps({name: one.getsockname()[1] for name, one in held.items()}), flush=True)
time.sleep(300)
"""


class Held:
    """A process in a namespace that holds connections, ``ports`` by name."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        words = (sys.executable, "-c", HOLDER, PEER, PEER_6, str(PORT))
        env = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": str(PORT)}
        self.process = subprocess.Popen(namespace.command(*words), stdout=subprocess.PIPE, env=env)
        assert self.process.stdout is not None
        self.ports: dict[str, int] = json.loads(self.process.stdout.readline())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def inode(self) -> int:
        """The namespace that it is in."""
        return Path(self.namespace.path).stat().st_ino

    def by_name(self, found: tuple[Audited, ...]) -> dict[str, Audited]:
        """Return what was found by the names of the sockets."""
        names = {port: name for name, port in self.ports.items()}
        return {names[one.connection.local_port]: one for one in found}


@pytest.fixture(scope="module")
def held(can_make_namespaces: None) -> Iterator[Held]:
    """Connections of a process in one namespace to a silent peer in another."""
    with Namespace() as node, Namespace() as peer:
        node.veth("e0", "p0", other=peer)
        node.batch(f"addr add {NODE}/24 dev e0\naddr add fd00::1/64 dev e0 nodad\n")
        peer.batch(f"addr add {PEER}/24 dev p0\naddr add {PEER_6}/64 dev p0 nodad\n")
        with peer.enter():
            listener = socket.create_server(
                ("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64
            )
        with listener:
            made = Held(node)
            try:
                yield made
            finally:
                made.process.kill()
                made.process.communicate()


@pytest.fixture(scope="module")
def seen(held: Held) -> dict[str, Audited]:
    """The audit of that process, where ten minutes are wanted."""
    return held.by_name(audit(READER, Training(), [held.pid], 600).found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", Verdict.UNPROTECTED),
        ("none6", Verdict.UNPROTECTED),
        ("alive", Verdict.PROTECTED),
        ("alive6", Verdict.PROTECTED),
        ("idle", Verdict.PROTECTED),
        ("mapped", Verdict.PROTECTED),
        ("old", Verdict.STALE),
        ("full", Verdict.BUSY),
        ("here", Verdict.UNPROTECTED),
    ],
)
def test_verdicts(seen: dict[str, Audited], name: str, expected: Verdict) -> None:
    """Each sort of socket is seen for what it is, in another namespace than ours."""
    assert seen[name].verdict is expected


def test_what_is_shown(held: Held, seen: dict[str, Audited]) -> None:
    """Time left, process, namespace; a mapped address is IPv4; only loopback is loopback."""
    assert 7000_000 < seen["old"].connection.timer_ms <= 7200_050
    assert 30_000 < seen["idle"].connection.timer_ms <= 45_050
    assert {one.pid for one in seen.values()} == {held.pid}
    assert seen["none"].comm.startswith("python")
    assert seen["none"].connection.namespace == held.inode
    assert (seen["mapped"].connection.local, seen["mapped"].connection.remote) == (NODE, PEER)
    assert seen["none6"].connection.remote == PEER_6
    assert [name for name, one in seen.items() if one.loopback] == ["here"]


def test_the_whole_host(held: Held) -> None:
    """All namespaces with a process are looked at, and every socket finds its own."""
    found = [one for one in audit(READER, Training(), None, 600).found if one.pid == held.pid]

    assert held.by_name(tuple(found)).keys() == held.ports.keys()


def test_the_command(held: Held) -> None:
    """``keepalive audit --pid --json`` prints the promised keys, and ends with the sentence."""
    document = run_json("--pid", str(held.pid))
    by_port = {one["local"].rpartition(":")[2]: one for one in document["connections"]}
    one = by_port[str(held.ports["none6"])]
    keys = ("pid", "comm", "namespace", "local", "remote", "verdict", "timer_s")

    assert {key: one[key] for key in keys[3:]} == {
        "local": f"[fd00::1]:{held.ports['none6']}",
        "remote": f"[{PEER_6}]:{PORT}",
        "verdict": "unprotected",
        "timer_s": None,
    }
    assert one["pid"] == held.pid
    assert 0 < by_port[str(held.ports["alive"])]["timer_s"] <= 60.05
    summary = document["summary"]
    assert [summary[key] for key in ("unprotected", "stale", "busy", "protected")] == [2, 1, 1, 4]
    assert summary["loopback"] == 1
    assert summary["sentence"].startswith(f"2 of 8 connections of process {held.pid} (")


def test_a_job(held: Held) -> None:
    """Training is found by its environment, in any namespace, and its store by MASTER_PORT."""
    found = [one for one in run_json()["connections"] if one["pid"] == held.pid]

    assert len(found) == len(held.ports)
    assert {one["kind"] for one in found if not one["loopback"]} == {"TCPStore"}
    job = found[0]["job"]
    assert job
    assert run_json("--job", job)["summary"]["sentence"].startswith(
        f"2 of 8 connections of job {job} are not protected; "
    )


def test_the_table(held: Held) -> None:
    """People get a table, the worst first, and the sentence last."""
    lines = run("--pid", str(held.pid)).stdout.splitlines()

    assert lines[2].startswith("unprotected")
    assert lines[-1].startswith("2 of 8 connections of process")


def test_a_process_that_is_not_there() -> None:
    """One line says which, and the exit code is 1."""
    done = run("--pid", "4194999")

    assert done.returncode == 1
    assert done.stderr == "linkhold: --pid 4194999: there is no such process\n"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the audit as a command."""
    command = [sys.executable, "-m", "linkhold", "keepalive", "audit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def run_json(*arguments: str) -> Any:
    """Return the document that the command prints."""
    done = run("--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_sysctls_are_written_and_read_back(namespace: Namespace) -> None:
    """In the other namespace only; what the kernel lacks or refuses is said of that value alone."""
    inode = Path(namespace.path).stat().st_ino
    own = Path("/proc/sys/net/ipv4", RETRIES).read_text()
    write = {RETRIES: 9, SYN: 500, "tcp_nothing": 1, "../conf/all/forwarding": 1}
    (found,) = visit([Visit(namespace.path, inode, read=(RETRIES, "tcp_none"), write=write)])

    assert found.error == ""
    assert dict(found.before) == {RETRIES: 15, SYN: 6}
    assert dict(found.values) == {RETRIES: 9, SYN: 6}
    assert found.errors[SYN] == "the kernel refuses this value"
    assert found.errors["tcp_nothing"] == "this kernel has no such value"
    assert "no name of a sysctl" in found.errors["../conf/all/forwarding"]
    assert namespace.run("cat", f"/proc/sys/net/ipv4/{RETRIES}").strip() == "9"
    assert Path("/proc/sys/net/ipv4", RETRIES).read_text() == own


def test_one_helper_visits_many_and_comes_home(namespace: Namespace) -> None:
    """In the order of the question; what has ended or is another one now is not entered."""
    inode, own = (Path(path).stat().st_ino for path in (namespace.path, "/proc/self/ns/net"))
    namespace.run("sysctl", "-qw", f"net.ipv4.{RETRIES}=8")
    found = visit(
        Visit(path, wanted, read=(RETRIES,))
        for path, wanted in (
            (namespace.path, inode),
            ("/proc/self/ns/net", own),
            (namespace.path, 1),
            ("/proc/4194999/ns/net", 2),
            ("/proc/self/ns/mnt", Path("/proc/self/ns/mnt").stat().st_ino),
        )
    )

    assert [dict(one.values) for one in found[:2]] == [{RETRIES: 8}, {RETRIES: 15}]
    assert [one.gone for one in found] == [False, False, True, True, False]
    assert found[4].error == "Invalid argument"
    assert Path("/proc/self/ns/net").stat().st_ino == own


def test_a_helper_that_hangs_or_floods_is_ended() -> None:
    """Its answer has a deadline and a size; nothing of it is left."""
    began = time.monotonic()
    with pytest.raises(Unavailable, match="did not answer within"):
        ask(["sleep", "30"], {}, timeout_s=0.2, most_bytes=100)
    with pytest.raises(Unavailable, match="more than 100 bytes"):
        ask(["yes"], {}, timeout_s=10, most_bytes=100)
    with pytest.raises(Unavailable, match="ended with 3: broken"):
        ask(["sh", "-c", "echo broken >&2; exit 3"], {}, timeout_s=10, most_bytes=100)
    with pytest.raises(Unavailable, match="no JSON"):
        ask(["echo", "hello"], {}, timeout_s=10, most_bytes=100)

    assert time.monotonic() - began < 5


def test_an_ordinary_user(held: Held, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without rights his own namespace is read, others are not entered, and both are said."""
    own = Path("/proc/self/ns/net").stat().st_ino
    question = {
        "visits": [
            {"path": "/proc/self/ns/net", "inode": own, "read": [TIME], "connections": True},
            {"path": held.namespace.path, "inode": held.inode},
            {"path": "/proc/self/ns/net", "inode": own, "write": {TIME: 60}},
        ]
    }
    command = [*as_nobody(tmp_path_factory.mktemp("nobody")), *ourselves("linkhold.inside.helper")]
    home, other, written = ask(command, question, timeout_s=30, most_bytes=1 << 20)

    assert home["error"] == ""
    assert home["values"].keys() == {TIME}
    assert isinstance(home["connections"], list)
    assert "needs root" in other["error"]
    assert "this needs root" in written["errors"][TIME]
    assert os.geteuid() == 0
