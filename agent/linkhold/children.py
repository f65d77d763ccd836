"""The only place that starts processes: each with an owner, an end and a bounded output.

A child never outlives the agent: ``setpriv --pdeathsig KILL`` (util-linux) makes the kernel end
it with the thread that started it, also when the agent is killed with SIGKILL. It is run by
setpriv and not by a ``preexec_fn``, which is unsafe in a process with threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess  # noqa: TID251 - this is the place
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.model import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

KEPT_LINES = 20
KEPT_LINE_BYTES = 500
NOT_EXECUTED = (126, 127)
"""setpriv ends with these when it may not run, or does not find, its command."""
HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NO_SECRETS = {"PATH": HOST_PATH, "LC_ALL": "C.UTF-8"}


class Child:
    """A running process, watched by the event loop.

    ``on_exit(code)`` is called once in the loop; ``last_lines`` are the newest lines that it
    printed. Start it in the loop's thread: the kernel ties its life to that thread.
    """

    def __init__(
        self,
        argv: Sequence[str],
        on_exit: Callable[[int], None],
        *,
        user: tuple[int, int] | None = None,
    ) -> None:
        """Start ``argv``, as (uid, gid) ``user`` if given; raises :class:`Unavailable`."""
        self._loop = asyncio.get_running_loop()
        self._on_exit = on_exit
        self._rest = b""
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - argv is ours
                [*_tie_to_parent(user), *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=None if user is None else _NO_SECRETS,  # another user may read his own
                umask=0o077,  # whatever ours is: a socket must not be open before we open it
            )
        except OSError as error:
            raise Unavailable(f"{argv[0]}: {error.strerror}") from error
        assert self._process.stdout is not None  # noqa: S101 - it is a PIPE
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._loop.add_reader(self._output, self._read_output)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._exited)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def _read_output(self) -> None:
        try:
            chunk = os.read(self._output, 65536)
        except BlockingIOError:
            return
        if not chunk:
            self._loop.remove_reader(self._output)
            return
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-KEPT_LINE_BYTES:]
        self.last_lines.extend(line[:KEPT_LINE_BYTES].decode("utf-8", "replace") for line in lines)

    def _exited(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        with contextlib.suppress(OSError):
            self._read_output()
        self._loop.remove_reader(self._output)
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._on_exit(code)

    @property
    def ended(self) -> bool:
        """Whether it has ended and been waited for; its pid may be somebody else's then."""
        return self._process.returncode is not None

    def kill(self) -> None:
        """End it at once, with everything it started."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: its exit code and the last line that it printed."""

    code: int
    last_line: str = ""


def run(argv: Sequence[str], *, timeout_s: float) -> Outcome:
    """Run a program to its end and return how it ended; for commands, not for the loop.

    Raises :class:`Unavailable` when it cannot be started, and when it does not end in time: it
    is killed then.
    """
    try:
        done = subprocess.run(  # noqa: S603 - argv is ours
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(argv)}: did not end within {timeout_s:g} s") from None
    except OSError as error:
        raise Unavailable(f"{argv[0]}: {error.strerror}") from error
    lines = done.stdout[-KEPT_LINE_BYTES:].decode("utf-8", "replace").strip().splitlines()
    return Outcome(done.returncode, lines[-1] if lines else "")


def ask(argv: Sequence[str], question: Any, *, timeout_s: float, most_bytes: int) -> Any:
    """Run a program that answers a JSON document on its stdin with one on its stdout.

    Blocking: for commands and threads, not for the loop. The program ends with the thread that
    asked. Raises :class:`Unavailable` when it cannot be started, fails, or its answer is late,
    longer than ``most_bytes`` or no JSON; it is killed then.
    """
    name = "the helper process"
    with _memory(json.dumps(question).encode()) as asked, _memory(b"") as complaints:
        try:
            process = subprocess.Popen(  # noqa: S603 - argv is ours
                [*_tie_to_parent(None), *argv],
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env=_environment(),
                cwd="/",
            )
        except OSError as error:
            raise Unavailable(f"{argv[0]}: {error.strerror}") from error
        with process:
            try:
                end_s = time.monotonic() + timeout_s
                answer = _answer(process, end_s, most_bytes)
                code = process.wait(timeout=max(0.0, end_s - time.monotonic()))
            except (TimeoutError, subprocess.TimeoutExpired):
                raise Unavailable(f"{name} did not answer within {timeout_s:g} s") from None
            finally:
                process.kill()  # does nothing to one that has been waited for
        if code in NOT_EXECUTED:
            why = _last_line(complaints).rpartition(": ")[2]
            raise Unavailable(f"{name} cannot be started: {argv[0]}: {why} (for this user)")
        if code:
            raise Unavailable(f"{name} ended with {code}: {_last_line(complaints)}")
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        raise Unavailable(f"{name} answered what is no JSON") from None


@contextlib.contextmanager
def _memory(content: bytes) -> Iterator[int]:
    """Give a file without a name or a disk, to be read from its start."""
    descriptor = os.memfd_create("linkhold", os.MFD_CLOEXEC)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _answer(process: subprocess.Popen[bytes], end_s: float, most_bytes: int) -> bytes:
    """Return all that a process prints until ``end_s`` of time.monotonic(), or raise."""
    assert process.stdout is not None  # noqa: S101 - it is a PIPE
    output = process.stdout.fileno()
    found = bytearray()
    poll = select.poll()  # select() takes no descriptor above 1023
    poll.register(output, select.POLLIN)
    while poll.poll(max(0.0, end_s - time.monotonic()) * 1000):
        chunk = os.read(output, 1 << 20)
        if not chunk:
            return bytes(found)
        found += chunk
        if len(found) > most_bytes:
            raise Unavailable(f"a helper process answered more than {most_bytes} bytes")
    raise TimeoutError


def _last_line(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, KEPT_LINE_BYTES, max(0, size - KEPT_LINE_BYTES))
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def ourselves(module: str) -> list[str]:
    """Return the command that runs ``main`` of one of our modules in a fresh interpreter.

    With -I, so that no variable or file of a user's decides what root's process imports.
    """
    root = str(Path(__file__).resolve().parents[1])
    code = (
        f"import sys; sys.path.insert(0, {root!r}); "
        f"from {module} import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-I", "-c", code]


def start_alone(argv: Sequence[str], unit: str) -> None:
    """Start a program that outlives this one, its terminal, its session and its cgroup.

    Where systemd runs it becomes a transient unit of its own. Elsewhere, and in a network
    namespace that is not systemd's, it is a process of its own session that init adopts, in the
    top cgroup if we may put it there. Raises :class:`Unavailable` when it cannot be started.
    """
    if _systemd_serves_us():
        # A shutdown need not wait for it: what it would undo then, the next boot undoes.
        own = [f"--unit={unit}", "--property=TimeoutStopSec=2"]
        command = ["systemd-run", "--quiet", "--collect", *own, "--", *argv]
        with contextlib.suppress(Unavailable):
            if run(command, timeout_s=10.0).code == 0:
                return
    try:
        subprocess.Popen(  # noqa: S603 - argv is ours
            ["/bin/sh", "-c", _LET_GO, "linkhold-guard", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(),
            cwd="/",
        ).wait()
    except OSError as error:
        raise Unavailable(f"{argv[0]}: {error.strerror}") from error


def _environment() -> dict[str, str]:
    """Return the environment of programs of the host: whoever calls us does not choose them."""
    return {**os.environ, "PATH": HOST_PATH, "LC_ALL": "C.UTF-8"}


_LET_GO = """
for top in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/systemd/cgroup.procs; do
    [ -w $top ] && echo $$ >$top
done 2>/dev/null
"$@" &
"""


def _systemd_serves_us() -> bool:
    if not Path("/run/systemd/system").is_dir() or shutil.which("systemd-run") is None:
        return False
    with contextlib.suppress(OSError):
        return Path("/proc/self/ns/net").readlink() == Path("/proc/1/ns/net").readlink()
    return False


def missing_tools() -> str:
    """Return what children lack on this machine, in words; empty where nothing is missing."""
    if shutil.which("setpriv"):
        return ""
    return "without setpriv a child keeps our user and may outlive a killed agent"


def _tie_to_parent(user: tuple[int, int] | None) -> list[str]:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return []
    command = [setpriv, "--pdeathsig", "KILL"]
    if user is not None:
        command += ["--reuid", str(user[0]), "--regid", str(user[1]), "--clear-groups"]
    return [*command, "--"]


def kill_leftovers(name: str, configuration: Path) -> int:
    """Kill what former agents left behind: processes ``name -c configuration``; return how many.

    They are looked for in /proc and not by a noted pid, which is missing where the disk was full
    and may long belong to somebody else. A process whose ``configuration`` is another file, in a
    container's own mounts, is none of ours. Reads all of /proc: call it from a thread.
    """
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]  # noqa: PTH208
    return sum(_is_named(pid, name) and _kill_if(pid, configuration) for pid in pids)


def _is_named(pid: int, name: str) -> bool:
    try:
        comm = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, UnicodeDecodeError):
        return False
    return comm in {name, "setpriv"}  # the latter until it has become the former


def _kill_if(pid: int, configuration: Path) -> bool:
    try:
        fd = os.pidfd_open(pid)  # from here on the pid is not used again
    except OSError:
        return False
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        ours = words[-3:-1] == [b"-c", os.fsencode(configuration)]
        if not ours or not configuration.samefile(f"/proc/{pid}/root{configuration}"):
            return False
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
