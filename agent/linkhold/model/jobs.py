"""Training processes and the jobs they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class TrainingProcess:
    """One process that trains, or that starts such processes.

    ``started`` is field 22 of /proc/PID/stat, which with the pid identifies a process for a
    boot. ``namespace`` is the inode of its network namespace, 0 where that may not be read.
    ``env`` holds only what training is configured by (RANK, MASTER_ADDR, TORCH_*, NCCL_*, ...),
    nothing else of the process's environment. ``job`` groups processes; ``launcher`` is the pid
    of the torchrun (or the like) above it, 0 without one. ``is_worker``: started by a rank, as
    the workers of a DataLoader are. ``why`` says what gave it away.
    """

    pid: int
    started: int
    uid: int
    comm: str
    words: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    namespace: int = 0
    job: str = ""
    launcher: int = 0
    is_launcher: bool = False
    is_worker: bool = False
    why: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[int, int]:
        """What identifies the process in this boot."""
        return self.pid, self.started


@dataclass(frozen=True, slots=True)
class Training:
    """All training of a node. ``unread`` processes hide their environment from this user."""

    processes: tuple[TrainingProcess, ...] = ()
    unread: int = 0
    doubts: tuple[str, ...] = ()

    def of(self, job: str) -> tuple[TrainingProcess, ...]:
        """Return the processes of one job."""
        return tuple(process for process in self.processes if process.job == job)

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of the jobs, each once."""
        return tuple(dict.fromkeys(process.job for process in self.processes if process.job))

    def named(self, text: str) -> tuple[str, ...]:
        """Return the jobs that somebody means: by the name, or by a part of it around the ``@``.

        ``train.py@4711`` is that job, ``train.py`` every run of that script, ``4711`` the run.
        """
        if text in self.jobs:
            return (text,)
        return tuple(job for job in self.jobs if text in job.split("@", 1))
