"""What training processes tell of themselves: numbers for people, never for a decision."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Numbers:
    """What happened so far in one process that trains, or in several of one job together.

    ``held_s`` is how long training was on hold, in ``holds`` holds. ``uploads_kept_back`` waited
    because they could not have worked, ``uploads_failed`` failed for good. ``retries`` are attempts
    after a failed one, of uploads and of :mod:`linkhold.client.retry`; ``attempts_avoided`` those
    not made. ``data_retries`` are reads tried again, ``data_rebuilds`` crews of workers replaced.
    """

    held_s: float = 0.0
    holds: int = 0
    uploads: int = 0
    uploads_kept_back: int = 0
    uploads_failed: int = 0
    retries: int = 0
    attempts_avoided: int = 0
    data_retries: int = 0
    data_rebuilds: int = 0

    def __add__(self, other: Numbers) -> Numbers:
        return Numbers(*(getattr(self, name) + getattr(other, name) for name in NAMES))


NAMES = tuple(field.name for field in fields(Numbers))


@dataclass(frozen=True, slots=True)
class JobLabel:
    """What tells one job from another in a metric, run after run: few values in a long time.

    ``script`` is a file's or module's name; ``run`` what a person or scheduler named the run, empty
    where nobody did: a pid would be another series each time.
    """

    script: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class JobNumbers:
    """The numbers of a job of one user, and how many of its processes were heard lately."""

    label: JobLabel
    uid: int
    processes: int
    numbers: Numbers
