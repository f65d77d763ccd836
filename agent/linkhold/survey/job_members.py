"""The processes of a job as they know themselves, also in a container."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.model.holds import Key
    from linkhold.model.jobs import Training
    from linkhold.survey.files import Reader

MOST = 256
"""What these start is recognised by them."""


def members(reader: Reader, training: Training, job: str) -> tuple[Key, ...]:
    """Return processes of a job, at most 256, by their pid inside and their start.

    Launchers and ranks come first. Others count too: a rank below a program that only carries its
    environment into a container looks like a worker, and cannot see what is above it.
    """
    own = sorted(training.of(job), key=lambda one: one.is_worker)
    return tuple((_inner_pid(reader, one.pid), one.started) for one in own[:MOST])


def _inner_pid(reader: Reader, pid: int) -> int:
    """Return the pid in the process's own namespace: the last of NSpid (proc(5), Linux 4.1)."""
    for line in (reader.text(f"/proc/{pid}/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "NSpid" and value.split():
            return int(value.split()[-1])
    return pid
