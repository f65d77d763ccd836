"""The numbers of training jobs as metrics. Pure; how many jobs there are is bounded before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.wire.openmetrics import Family, Kind, Sample, sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkhold.model.numbers import JobNumbers

COUNTERS = {
    "held_s": ("held_seconds", "how long training was on hold"),
    "holds": ("holds", "holds of training"),
    "uploads": ("uploads", "uploads done"),
    "uploads_kept_back": ("uploads_kept_back", "uploads that waited until they could work"),
    "uploads_failed": ("uploads_failed", "uploads that failed for good"),
    "retries": ("retries", "attempts after a failed one"),
    "attempts_avoided": ("attempts_avoided", "attempts not made, as they could not have worked"),
    "data_retries": ("data_retries", "reads of data tried again"),
    "data_rebuilds": ("data_rebuilds", "times that workers of a loader were replaced"),
}
"""By the field of :class:`linkhold.model.numbers.Numbers`: name and meaning of the metric."""


def job_families(jobs: Iterable[JobNumbers]) -> Iterator[Family]:
    """Yield the metrics of all jobs, each summed over the job's processes on this node."""
    known = tuple(jobs)
    for field, (name, help_) in COUNTERS.items():
        samples = tuple(_sample(job, getattr(job.numbers, field)) for job in known)
        yield Family(f"linkhold_training_{name}", Kind.COUNTER, help_, samples)
    running = tuple(_sample(job, job.processes) for job in known)
    yield Family("linkhold_training_processes", Kind.GAUGE, "processes that tell", running)


def _sample(job: JobNumbers, value: float) -> Sample:
    return sample(value, script=job.label.script, run=job.label.run, uid=str(job.uid))
