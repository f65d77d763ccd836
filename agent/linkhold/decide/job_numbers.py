"""The numbers of a node's training jobs, added up from what their processes tell. Pure.

Anybody on the node may tell, so all of it is bounded, and a user's share too: one who tells
nonsense spoils only the numbers of his own jobs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from linkhold.model import LinkholdError
from linkhold.model.numbers import JobLabel, JobNumbers, Numbers

FORGET_S = 180.0
"""A process tells every minute, also when nothing changed: one that is silent has ended."""
FORGET_JOB_S = 3600.0
"""A job without processes keeps its sums: it may be started again."""
MOST_JOBS, MOST_JOBS_OF_A_USER = 64, 16
MOST_PROCESSES, MOST_PROCESSES_OF_A_USER = 512, 256
MOST_ENDED = 32
"""Of a job's ended processes are known by name: one that was only frozen is not counted twice."""

_Key = tuple[int, JobLabel]


@dataclass(slots=True)
class _Job:
    older: Numbers = field(default_factory=Numbers)
    ended: dict[str, Numbers] = field(default_factory=dict)
    heard_ns: int = 0
    processes: dict[str, tuple[int, Numbers]] = field(default_factory=dict)

    def end(self, process: str) -> None:
        """Take a process for ended; of those ended long ago only the sum is kept."""
        self.ended[process] = self.processes.pop(process)[1]
        while len(self.ended) > MOST_ENDED:
            self.older += self.ended.pop(next(iter(self.ended)))


class Jobs:
    """The jobs that were heard of. Times are of time.monotonic_ns()."""

    def __init__(self) -> None:
        self._jobs: dict[_Key, _Job] = {}

    def tell(self, uid: int, label: JobLabel, process: str, numbers: Numbers, now_ns: int) -> None:
        """Take what a process tells. Raises :class:`LinkholdError` where there are too many."""
        self.forget(now_ns)
        key = (uid, label)
        job = self._jobs.get(key)
        if job is None or process not in job.processes:
            self._check_room(key)
        if job is None:
            job = self._jobs[key] = _Job()
        job.heard_ns = now_ns
        job.ended.pop(process, None)  # it had only been frozen: it tells its whole count again
        job.processes[process] = (now_ns, numbers)

    def sums(self, now_ns: int) -> tuple[JobNumbers, ...]:
        """Return each job's numbers: a sum never falls while the job is known."""
        self.forget(now_ns)
        return tuple(
            JobNumbers(label, uid, len(job.processes), _total(job))
            for (uid, label), job in self._jobs.items()
        )

    def forget(self, now_ns: int) -> None:
        """Add processes that have ended to their job's sum, and drop jobs of long ago."""
        for job in self._jobs.values():
            for process, (heard_ns, _) in tuple(job.processes.items()):
                if now_ns - heard_ns > FORGET_S * 1e9:
                    job.end(process)
        self._jobs = {
            key: job
            for key, job in self._jobs.items()
            if job.processes or now_ns - job.heard_ns <= FORGET_JOB_S * 1e9
        }

    def _check_room(self, key: _Key) -> None:
        uid, _ = key
        processes: Counter[int] = Counter()
        for (owner, _), job in self._jobs.items():
            processes[owner] += len(job.processes)
        jobs = Counter(owner for owner, _ in self._jobs)
        if processes[uid] >= MOST_PROCESSES_OF_A_USER or processes.total() >= MOST_PROCESSES:
            raise LinkholdError("no more processes are counted on this node")
        if key in self._jobs:
            return
        own = jobs[uid] >= MOST_JOBS_OF_A_USER
        if (own or len(self._jobs) >= MOST_JOBS) and not self._drop_ended(uid if own else None):
            raise LinkholdError("no more jobs are counted on this node")

    def _drop_ended(self, uid: int | None) -> bool:
        """Make room for a job: drop the one (of a user) that ended first; tell if there was one."""
        ended = [
            (job.heard_ns, key)
            for key, job in self._jobs.items()
            if not job.processes and uid in (None, key[0])
        ]
        if not ended:
            return False
        del self._jobs[min(ended, key=lambda one: one[0])[1]]
        return True


def _total(job: _Job) -> Numbers:
    living = (numbers for _, numbers in job.processes.values())
    return sum((*living, *job.ended.values()), job.older)
