"""Which training processes belong to one job, and what a person calls it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.decide.training import marks
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from linkhold.model.jobs import TrainingProcess

NO_RUN = frozenset({"", "none"})
"""torchrun's --rdzv_id is ``none`` unless it is given (torch/distributed/run.py)."""
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "PMIX_RANK")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOST_NAME = 255
_DEEP = 64
"""Of a chain of parents; a pid that is used again while /proc is read could close a circle."""


@dataclass(frozen=True, slots=True)
class Found:
    """A process that trains or may launch what does, and the pids above it, nearest first."""

    process: TrainingProcess
    above: tuple[int, ...] = ()


def above(parents: Mapping[int, int], pid: int) -> tuple[int, ...]:
    """Return the pids above ``pid``, nearest first."""
    found: list[int] = []
    while len(found) < _DEEP:
        pid = parents.get(pid, 0)
        if not pid:
            break
        found.append(pid)
    return tuple(found)


def grouped(found: Sequence[Found]) -> tuple[TrainingProcess, ...]:
    """Return the processes with job, launcher and role; launchers of other things are left out."""
    return tuple(_Family(found).members())


class _Family:
    """The processes by pid, and what follows from who started whom."""

    def __init__(self, found: Sequence[Found]) -> None:
        self._all = {one.process.pid: one for one in found}
        below = {pid for one in found if one.process.why for pid in one.above}
        self._there = {
            pid: one for pid, one in self._all.items() if one.process.why or pid in below
        }

    def members(self) -> Iterator[TrainingProcess]:
        """Yield the processes in the order of their pids."""
        keys = {pid: self._key(one) for pid, one in self._there.items()}
        for pid, one in self._there.items():
            if not one.process.is_launcher:
                continue
            # A launcher does not always know what its ranks are told: --standalone invents an id.
            below = (keys[p] for p, o in self._there.items() if pid in o.above and not _starts(o))
            keys[pid] = next(below, keys[pid])
        names = {key: self._name(key, [p for p in keys if keys[p] == key]) for key in keys.values()}
        for pid in sorted(self._there):
            one = self._there[pid]
            yield replace(
                one.process,
                job=names[keys[pid]],
                launcher=next((p for p in one.above if self._launches(p)), 0),
                is_worker=self._is_worker(one),
            )

    def _launches(self, pid: int) -> bool:
        return pid in self._there and _starts(self._there[pid])

    def _is_worker(self, one: Found) -> bool:
        """Whether a rank started it: it has that rank's number, or the name of a worker."""
        parent = next((self._there[pid] for pid in one.above if pid in self._there), None)
        if parent is None or _starts(parent) or _starts(one):
            return False
        process = one.process
        if process.comm == marks.DATA_WORKER or marks.is_helper(process.words):
            return True
        rank = _rank(process)
        # Without numbers in the environment it may as well be a rank of torch's mp.spawn.
        return rank is not None and rank == _rank(parent.process)

    def _key(self, one: Found) -> tuple[str, str]:
        env = one.process.env
        run = env.get("TORCHELASTIC_RUN_ID") or _given_run(one.process)
        if run not in NO_RUN:
            return "run", run
        if env.get("SLURM_JOB_ID"):
            return "slurm", env["SLURM_JOB_ID"]
        line = [pid for pid in (one.process.pid, *one.above) if pid in self._there]
        launchers = [pid for pid in line if self._launches(pid)]
        if launchers:
            return "pid", str(launchers[-1])
        if env.get("MASTER_ADDR"):
            return "at", f"{env['MASTER_ADDR']}:{env.get('MASTER_PORT', '')}"
        return "pid", str(line[-1])

    def _name(self, key: tuple[str, str], pids: Sequence[int]) -> str:
        """Return the script of the job, and what tells it from another run of that script."""
        members = [self._there[pid] for pid in sorted(pids)]
        ranks = [one for one in members if not _starts(one) and not self._is_worker(one)]
        scripts = (marks.program(one.process.words) for one in ranks)
        script = next((what.short for what in scripts if what.name), "") or next(
            (_launched(one.process) for one in members if _starts(one)), "python"
        )
        kind, value = key
        if kind == "run" and _UUID.fullmatch(value):
            starters = [one.process.pid for one in members if _starts(one)]
            value = str((starters or sorted(pids))[0])
        return one_line(f"{script}@{'slurm' if kind == 'slurm' else ''}{value}"[:MOST_NAME])


def _starts(one: Found) -> bool:
    return one.process.is_launcher


def _rank(process: TrainingProcess) -> str | None:
    return next((process.env[name] for name in RANKS if name in process.env), None)


def _given_run(process: TrainingProcess) -> str:
    if marks.launcher(process.words) not in {marks.TORCHRUN, marks.ACCELERATE}:
        return ""
    given = marks.option(process.words, "--rdzv_id")
    return process.env.get("PET_RDZV_ID", "") if given is None else given


def _launched(process: TrainingProcess) -> str:
    """Return what a launcher starts: the first script or module among its arguments."""
    arguments = marks.program(process.words).arguments
    for word, following in zip(arguments, (*arguments[1:], ""), strict=False):
        if word in {"-m", "--module"}:
            return following
        if word.endswith(".py"):
            return word.rpartition("/")[2]
    return marks.launcher(process.words)
