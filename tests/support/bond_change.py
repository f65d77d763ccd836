"""Runs ``linkhold bond ...`` in a scenario, as a child process that can be stopped at any step.

The child is a fork, so that no interpreter has to start. Its changes of the kernel are taken out
of their bursts and sent one by one, and it may end itself after the n-th: no product code knows.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold import cli
from linkhold.actuators import journal as journal_module
from linkhold.actuators import perform as perform_module
from linkhold.cli import bond_apply, bond_end, bond_plan, bond_status
from linkhold.model import HostError
from linkhold.paths import STATE_DIR_VARIABLE
from support.lab import kernel
from support.topology import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkhold.rtnl.exchange import Exchange

LOADED = (bond_apply, bond_end, bond_plan, bond_status)
"""Imported once for all forks."""
GUARD = b"from linkhold.actuators.guard import main"
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Kill:
    """Ends the command after operation number ``after`` (from 1), in one of these ways.

    ``command``: SIGKILL for itself; ``group``: for its process group; ``cgroup``: for its cgroup;
    ``both``: the guard dies first; ``stop``: it hangs (SIGSTOP).
    """

    after: int
    how: str = "command"


@dataclass(frozen=True)
class Done:
    """How a command ended: ``code`` is negative for a signal; ``steps`` are its operations."""

    code: int
    stdout: str
    stderr: str
    steps: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        """All that it printed."""
        return self.stdout + self.stderr


class Command:
    """A running ``linkhold`` command."""

    def __init__(
        self, folder: Path, words: tuple[str, ...], prepare: Callable[[], object] | None = None
    ) -> None:
        self._files = tuple(folder / name for name in ("stdout", "stderr", "steps"))
        for file in self._files:
            file.write_text("")
        self.pid = os.fork()
        if self.pid == 0:
            _be_command(self._files, words, prepare)

    def wait(self, timeout_s: float = 60.0) -> Done:
        """Wait for its end; it is killed when that takes too long."""
        handle = os.pidfd_open(self.pid)
        try:
            if not select.select([handle], [], [], timeout_s)[0]:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"not within {timeout_s:g} s: the command has ended")
        finally:
            os.close(handle)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        out, err, steps = (file.read_text() for file in self._files)
        return Done(code, out, err, steps.splitlines())

    def stdout(self) -> str:
        """Return what it printed so far."""
        return self._files[0].read_text()

    def wait_for(self, text: str, timeout_s: float = 20.0) -> None:
        """Wait until it has printed ``text``."""
        try:
            wait_until(lambda: text in self.stdout(), f"it says {text!r}", timeout_s=timeout_s)
        except TimeoutError as late:
            said = "".join(file.read_text() for file in self._files[:2])
            raise TimeoutError(f"{late}; it says: {said}") from late

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)


def _be_command(
    files: tuple[Path, ...], words: tuple[str, ...], prepare: Callable[[], object] | None
) -> None:
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, file in ((1, files[0]), (2, files[1])):
            os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if prepare is not None:
            prepare()
        code = cli.main(list(words))
    except KeyboardInterrupt:
        code = 130
    except BaseException:  # noqa: BLE001 - nothing may return into the scenario's stack
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Steps:
    """Counts the operations of this process, notes each, and ends the process after one of them."""

    def __init__(self, file: Path, kill: Kill | None = None) -> None:
        self._file, self._kill, self._count = file, kill, 0
        self.each: Callable[[str], None] = lambda _: None

    def install(self) -> None:
        """Take the performer and the journal apart into single operations."""
        perform_module._send = self._split(perform_module._send)
        done = dict(perform_module._DO)
        perform_module._DO = {
            "netlink": done.pop("netlink"),
            **{name: self._counted(function) for name, function in done.items()},
        }
        write = vars(journal_module)["write_file"]

        def counted(path: Path, content: str | None, mode: int) -> None:
            write(path, content, mode)
            self.tick(f"{path.name} {'removed' if content is None else 'written'}")

        vars(journal_module)["write_file"] = counted

    def _split(self, send: Callable[..., None]) -> Callable[..., None]:
        def one_by_one(kernel: Exchange, changes: list[dict[str, Any]]) -> None:
            errors = []
            for change in changes:
                try:
                    send(kernel, [change])
                except HostError as error:
                    errors.append(error)
                self.tick(change["text"])
            if errors:
                raise errors[0]

        return one_by_one

    def _counted(self, function: Callable[..., None]) -> Callable[[Mapping[str, Any]], None]:
        def then_tick(step: Mapping[str, Any]) -> None:
            function(step)
            self.tick(str(step["text"]))

        return then_tick

    def tick(self, text: str) -> None:
        """Note one operation; perhaps end here."""
        self._count += 1
        with self._file.open("a") as file:
            file.write(text + "\n")
        self.each(text)
        if self._kill is not None and self._count == self._kill.after:
            _end(self._kill.how)


def _end(how: str) -> None:
    if how == "both":
        for pid in guards():
            os.kill(pid, signal.SIGKILL)
    if how == "group":
        os.killpg(0, signal.SIGKILL)
    if how == "cgroup":
        own = Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2]
        (CGROUP / own.lstrip("/") / "cgroup.kill").write_text("1")
        time.sleep(10)
    os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)


def guards() -> list[int]:
    """Return the process ids of the guards that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if GUARD in words and b"linkhold-guard" not in words:
                found.append(int(entry.name))
    return found


def _hurry(**times: float) -> None:
    """Let plans of this process have shorter times than a configuration may ask for."""
    for module in (bond_apply, bond_end):
        vars(module)["compiled"] = _shortened(vars(module)["compiled"], times)


def _shortened(
    compiled: Callable[..., dict[str, Any]], times: dict[str, float]
) -> Callable[..., dict[str, Any]]:
    return lambda plan: {**compiled(plan), **{k: v for k, v in times.items() if v}}


def mount_cgroups() -> None:
    """Mount the cgroup tree where systemd would have it."""
    kernel.mount("cgroup2", str(CGROUP))


def into_own_cgroup() -> None:
    """Put this process into a cgroup of its own, as a session has."""
    own = CGROUP / f"session-{os.getpid()}.scope"
    own.mkdir()
    (own / "cgroup.procs").write_text(str(os.getpid()))


class Host:
    """The machine of a scenario as ``linkhold bond`` sees it: its configuration and its journal."""

    def __init__(self, tmp: Path, **options: object) -> None:
        self.tmp = tmp
        self.config = tmp / "linkhold.yaml"
        self.state = tmp / "state"
        os.environ[STATE_DIR_VARIABLE] = str(self.state)
        self.want(**options)

    def want(self, **options: object) -> None:
        """Write the configuration of bond0."""
        bond = {"members": ["eth0", "eth1"], "confirm_after_s": 2, "guard_s": 20, **options}
        self.config.write_text(json.dumps({"bonds": {"bond0": bond}}))

    def start(
        self,
        *words: str,
        kill: Kill | None = None,
        brief: bool = False,
        guard_s: float = 0,
        prepare: Callable[[Steps], object] | None = None,
    ) -> Command:
        """Start ``linkhold bond WORDS``; ``prepare`` runs in it before the command does.

        ``brief``: checks need to hold for a moment only; ``guard_s`` below what may be configured.
        """
        with_config = words[0] in {"plan", "apply", "remove", "status", "test"}
        config = ("--config", str(self.config)) if with_config else ()
        steps = Steps(self.tmp / "steps", kill)

        def ready() -> None:
            steps.install()
            if brief or guard_s:
                _hurry(confirm_after_s=0.1 if brief else 0, guard_s=guard_s)
            if kill is not None and kill.how == "cgroup":
                into_own_cgroup()
            if prepare is not None:
                prepare(steps)

        return Command(self.tmp, ("bond", *words, *config), ready)

    def run(self, *words: str, **options: Any) -> Done:
        """Run ``linkhold bond WORDS`` to its end."""
        return self.start(*words, **options).wait()

    def apply(self, *words: str, **options: Any) -> Done:
        """Run ``bond apply`` without questions."""
        return self.run("apply", "--yes", *words, **options)

    def journal(self) -> dict[str, Any] | None:
        """Return what the journal holds: a change under way or, for a moment, committed."""
        file = self.state / "bond/journal.json"
        return dict(json.loads(file.read_bytes())) if file.exists() else None

    def is_committed(self) -> bool:
        """Whether the last change was made and is final."""
        found = self.journal()
        how = self.last()["ended"] if found is None else found["state"]
        return bool(how == "committed")

    def last(self) -> dict[str, Any]:
        """Return how the last change ended."""
        return dict(json.loads((self.state / "bond/last.json").read_bytes()))

    def wait_for_guard(self, timeout_s: float = 30.0) -> float:
        """Wait until no guard is left; return the seconds it took."""
        return wait_until(
            lambda: not guards(), "the guard has ended", timeout_s=timeout_s, every_s=0.1
        )
