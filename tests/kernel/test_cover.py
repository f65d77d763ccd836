"""Keepalive on real sockets: by the client in its own process, by the agent from outside."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from linkhold import tcp
from linkhold.actuators import cover as actuator
from linkhold.actuators.cover import Cover
from linkhold.client import Hold
from linkhold.model.cover import CLIENT_MARK, Exclusions
from linkhold.model.jobs import TrainingProcess
from linkhold.model.keepalive import Timers
from support.forgetful import started
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEEP = (socket.SOL_SOCKET, socket.SO_KEEPALIVE)
IDLE = (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
NEAR, FAR = "10.97.0.1", "10.97.0.2"
WANT = Timers(45, 45, 127)
HOLDER = """
import socket, sys
c = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(3)]
c[2].setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
if sys.argv[3:]:
    from linkhold.client import Hold
    h = Hold.connect(run_dir="/nonexistent", wait_s=0, cover=False)
def show():
    print([s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for s in c],
          [s.getsockopt(6, socket.TCP_KEEPIDLE) for s in c], flush=True)
show()
for line in sys.stdin:
    show()
"""


class Pair:
    """Two namespaces on one wire, and a server in the far one."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.near, self.far = (stack.enter_context(Namespace()) for _ in range(2))
        self.near.veth("e0", "e1", other=self.far)
        for end, name, number in ((self.near, "e0", 1), (self.far, "e1", 2)):
            end.ip(f"addr add 10.97.0.{number}/24 dev {name}")
            end.ip(f"addr add fd97::{number}/64 dev {name} nodad")
        self.servers: dict[socket.AddressFamily, socket.socket] = {}
        with self.far.enter():
            for family in (socket.AF_INET, socket.AF_INET6):
                made = socket.create_server(("", 0), family=family)
                self.servers[family] = stack.enter_context(made)

    @property
    def port(self) -> int:
        port: int = self.servers[socket.AF_INET].getsockname()[1]
        return port

    def connect(
        self, family: socket.AddressFamily = socket.AF_INET, host: str = FAR
    ) -> socket.socket:
        """Return a connection from near to far."""
        server = self.servers[socket.AF_INET6 if host == "fd97::2" else socket.AF_INET]

        def body() -> socket.socket:
            made = self.stack.enter_context(socket.socket(family))
            made.connect((host, server.getsockname()[1]))
            return made

        return self.near.call(body)

    def holder(self, *more: str) -> subprocess.Popen[str]:
        """Start a process with two plain connections and one with SO_KEEPALIVE."""
        command = [sys.executable, "-c", HOLDER, FAR, str(self.port), *more]
        process = subprocess.Popen(
            self.near.command(*command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.stack.callback(process.communicate)
        self.stack.callback(process.kill)
        show(process, ask=False)
        return process


@pytest.fixture
def pair(can_make_namespaces: None) -> Iterator[Pair]:
    """Two namespaces on one wire."""
    with ExitStack() as stack:
        yield Pair(stack)


def show(process: subprocess.Popen[str], *, ask: bool = True) -> str:
    """Return SO_KEEPALIVE and TCP_KEEPIDLE of a holder's three connections."""
    assert process.stdin is not None
    assert process.stdout is not None
    if ask:
        process.stdin.write("\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def training(process: subprocess.Popen[str]) -> list[TrainingProcess]:
    """Return the holder as the survey of training would."""
    return [TrainingProcess(process.pid, started(process.pid), 0, "python", ())]


@contextmanager
def connected(**arguments: object) -> Iterator[Hold]:
    """Return a Hold where no agent is."""
    with Hold.connect(run_dir="/nonexistent", wait_s=0, **arguments) as hold:  # type: ignore[arg-type]
        yield hold


def test_new_sockets_of_the_process_are_covered(pair: Pair) -> None:
    """Within seconds and by itself: IPv4, IPv6, mapped, and descriptors that Python knows not."""
    with connected() as hold:
        made = [
            pair.connect(),
            pair.connect(socket.AF_INET6, "fd97::2"),
            pair.connect(socket.AF_INET6, f"::ffff:{FAR}"),
        ]
        bare = pair.connect().detach()  # as a C++ library has it
        end_s = time.monotonic() + 8
        while hold.covered.get("covered", 0) < 4 and time.monotonic() < end_s:
            time.sleep(0.1)

        made.append(pair.stack.enter_context(socket.socket(fileno=bare)))
        assert [one.getsockopt(*KEEP) for one in made] == [1] * 4
        assert [one.getsockopt(*IDLE) for one in made] == [60] * 4


def test_what_is_left_alone(pair: Pair) -> None:
    """Loopback, listeners, own settings, excluded ports and peers keep what they had."""
    gc.collect()
    with connected() as hold:
        other = hold.cover_sockets()["local"]  # connections that other tests of this process left
    own, limited, plain = pair.connect(), pair.connect(), pair.connect()
    own.setsockopt(*KEEP, 1)
    limited.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000)
    loop = pair.stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    local = pair.stack.enter_context(socket.create_connection(loop.getsockname()))
    v6 = pair.connect(socket.AF_INET6, "fd97::2")
    port = plain.getsockname()[1]
    with connected(cover_exclude_ports=[port], cover_exclude_peers=["fd97:0::2"]) as hold:
        found = hold.cover_sockets()

    assert found == {"covered": 0, "own": 2, "local": other + 1, "excluded": 2, "refused": 0}
    assert own.getsockopt(*IDLE) == 7200
    assert not any(s.getsockopt(*KEEP) for s in (limited, plain, loop, local, v6))


def test_nothing_else_of_a_socket_changes(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocking mode and timeouts stay, even where the program set a default timeout."""
    one = pair.connect()
    one.setblocking(True)
    before = (fcntl.fcntl(one, fcntl.F_GETFL), fcntl.fcntl(one, fcntl.F_GETFD), _open())
    monkeypatch.setattr(socket, "socket", None)  # as gevent replaces it
    socket.setdefaulttimeout(5)
    try:
        with connected() as hold:
            assert hold.cover_sockets()["covered"] == 1
    finally:
        socket.setdefaulttimeout(None)

    assert before[:2] == (fcntl.fcntl(one, fcntl.F_GETFL), fcntl.fcntl(one, fcntl.F_GETFD))
    assert _open() - before[2] <= {f"/memfd:{CLIENT_MARK} (deleted)"}


def _open() -> set[str]:
    return {target for _, target in tcp.descriptors("/proc/self/fd")}


def test_later_values_reach_covered_sockets(pair: Pair) -> None:
    """Unless the program took the socket over meanwhile: then it is its own."""
    one, taken = pair.connect(), pair.connect()
    with connected() as hold:
        hold.cover_sockets()
        taken.setsockopt(*IDLE, 300)
        found = hold.cover_sockets(time_s=33)

    assert one.getsockopt(*IDLE) == 33
    assert taken.getsockopt(*IDLE) == 300
    assert (found["covered"], found["own"]) == (1, 1)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_shows_no_client() -> None:
    """It is inert until it makes a call of its own, so the agent may look after it."""
    with connected():
        assert any(CLIENT_MARK in target for target in _open())
        child = os.fork()
        if child == 0:
            os._exit(any(CLIENT_MARK in target for target in _open()))
        assert os.waitpid(child, 0)[1] == 0


def test_from_outside_and_back(pair: Pair, tmp_path: Path) -> None:
    """The agent covers a process, finds new sockets only, and a later agent restores."""
    process = pair.holder()
    agent = Cover(tmp_path)
    counts = agent.scan(training(process), WANT, Exclusions()).counts

    assert show(process) == "[1, 1, 1] [45, 45, 7200]"
    assert (counts["covered"], counts["own"]) == (2, 1)
    assert counts == agent.scan(training(process), WANT, Exclusions()).counts

    shorter = Cover(tmp_path).scan(training(process), Timers(20, 20, 127), Exclusions())
    assert show(process) == "[1, 1, 1] [20, 20, 7200]"
    assert shorter.counts == counts

    restored = Cover(tmp_path).restore()
    assert (restored.restored, restored.gone, restored.changed, restored.problems) == (2, 0, 0, ())
    assert show(process) == "[0, 0, 1] [7200, 7200, 7200]"
    assert Cover(tmp_path).restore().restored == 0


def test_a_client_speaks_for_its_process(pair: Pair, tmp_path: Path) -> None:
    """One that was told not to cover is not covered from outside either."""
    process = pair.holder("with a client")
    found = Cover(tmp_path).scan(training(process), WANT, Exclusions())

    assert (process.pid,) == found.clients
    assert show(process) == "[0, 0, 1] [7200, 7200, 7200]"


def test_an_ended_process_and_its_pid_reused(pair: Pair, tmp_path: Path) -> None:
    """Another process under the same number is never touched, and what is gone is no error."""
    process = pair.holder()
    other = [TrainingProcess(process.pid, 1, 0, "python", ())]

    assert Cover(tmp_path).scan(other, WANT, Exclusions()).errors == ()
    assert show(process) == "[0, 0, 1] [7200, 7200, 7200]"

    agent = Cover(tmp_path)
    agent.scan(training(process), WANT, Exclusions())
    process.kill()
    process.wait()
    assert agent.restore().gone == 2


def test_a_refusal_is_said(pair: Pair, tmp_path: Path) -> None:
    """Without the capability the error names the process, the cause and what to do."""
    process = pair.holder()
    code = (
        "import os, sys; from pathlib import Path; from linkhold.actuators.cover import Cover;"
        "from linkhold.model.cover import Exclusions; from linkhold.model.keepalive import Timers;"
        "from linkhold.model.jobs import TrainingProcess as P;"
        "pid, start = map(int, sys.argv[1:3]);"
        "found = Cover(Path(sys.argv[3])).scan("
        "[P(pid, start, 0, 'python', ())], Timers(45, 45, 127), Exclusions());"
        "print(found.errors[0])"
    )
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code]
    arguments = [str(process.pid), str(started(process.pid)), str(tmp_path)]
    # Root without capabilities may list the descriptors of root with them, and no more.
    said = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=True, timeout=30
    ).stdout

    assert said.startswith(f"process {process.pid} (python): its sockets may not be touched")
    assert "CAP_SYS_PTRACE" in said
    assert show(process) == "[0, 0, 1] [7200, 7200, 7200]"


@pytest.mark.parametrize(("code", "word"), [(errno.EPERM, "ptrace_scope"), (errno.ENOSYS, "5.6")])
def test_one_refusal_is_enough(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, word: str
) -> None:
    """Yama, seccomp or an old kernel: a process that is refused is asked once in a scan."""

    def refuse(*_: int) -> tcp.Socket:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(actuator, "_copy", refuse)
    process = pair.holder()
    found = Cover(tmp_path).scan(training(process), WANT, Exclusions())

    assert len(found.errors) == 1
    assert word in found.errors[0]
