"""How many workers, how much prefetch, and whether to pin: a suggestion with its reasons."""

from __future__ import annotations

import os
from typing import Any

from linkhold.client.data.machine import Machine, look, ranks_here

MOST_WORKERS = 16
"""More workers than this seldom help one rank; each costs memory and start-up time."""
PREFETCH = 4
"""Batches ahead per worker where memory allows: twice torch's, for storage that stutters."""
LEAST_PREFETCH = 2
MEMORY_SHARE = 0.25
SHM_SHARE = 0.8
WORKER_BYTES = 300 << 20
"""What a worker costs beside its batches: an interpreter with torch."""
MIB = 1 << 20


class Suggestion(dict[str, Any]):
    """Arguments for ``DataLoader(dataset, **suggestion)``; ``why`` has a reason for each."""

    def __init__(self, values: dict[str, Any], why: dict[str, str]) -> None:
        super().__init__(values)
        self.why = why

    def __str__(self) -> str:
        return "\n".join(f"{name}={value!r}: {self.why[name]}" for name, value in self.items())


def suggest_loader(
    dataset: Any = None,
    *,
    batch_size: int = 1,
    batch_bytes: int | None = None,
    ranks_per_node: int | None = None,
    pin_memory: bool | None = None,
) -> Suggestion:
    """Suggest ``num_workers``, ``prefetch_factor``, ``pin_memory``, ``persistent_workers``.

    By the cores and the memory that this process may use (affinity, cgroup), shared by
    ``ranks_per_node`` training processes (default: what the launcher says), and by the size of a
    batch: ``batch_bytes``, or ``batch_size`` samples like the first one of ``dataset``, which is
    read for that. Without either the memory of batches is left out.

    Raises :class:`TypeError` or :class:`ValueError` for a number that is wrong, and what
    ``dataset[0]`` raises.
    """
    _check("batch_size", batch_size)
    _check("batch_bytes", batch_bytes)
    _check("ranks_per_node", ranks_per_node)
    ranks, said_by = ranks_here(os.environ)
    if ranks_per_node is not None:
        ranks, said_by = ranks_per_node, "ranks_per_node"
    if batch_bytes is None and hasattr(dataset, "__getitem__"):
        batch_bytes = batch_size * size_of(dataset[0])
    return suggest(look(), ranks, said_by, batch_bytes or 0, pin_memory)


def suggest(
    machine: Machine,
    ranks: int,
    said_by: str,
    batch_bytes: int,
    pin_memory: bool | None = None,  # noqa: FBT001 - None is a third
) -> Suggestion:
    """Return the suggestion for a machine; ``batch_bytes`` 0 means unknown. Pure."""
    share = machine.cores / ranks
    wanted = min(MOST_WORKERS, max(1, int(share) - 1))
    among = f", shared by {ranks} ranks ({said_by})" if said_by else ""
    why = {
        "num_workers": f"{machine.cores:g} cores ({machine.cores_from}){among}, one of them for "
        f"the training process, at most {MOST_WORKERS}"
    }
    workers, prefetch, limit = _fit(machine, ranks, wanted, batch_bytes)
    values: dict[str, Any] = {"num_workers": workers}
    if workers < wanted:
        why["num_workers"] += f"; {wanted} would not fit: {limit}"
    if workers:
        values["prefetch_factor"] = prefetch
        ahead = workers * prefetch
        size = f", {ahead * batch_bytes / MIB:.0f} MiB" if batch_bytes else ""
        tight = f"; more would not fit: {limit}" if limit and prefetch < PREFETCH else ""
        why["prefetch_factor"] = f"{ahead} batches ahead{size}, for storage that stutters{tight}"
    values["pin_memory"] = machine.gpu if pin_memory is None else pin_memory
    why["pin_memory"] = _why_pin(machine, pin_memory)
    values["persistent_workers"] = workers > 0
    why["persistent_workers"] = (
        "workers are started once, not at each epoch" if workers else "there are no workers"
    )
    return Suggestion(values, why)


def size_of(sample: Any) -> int:
    """Return the bytes of a sample: tensors, arrays, texts, and what contains them."""
    found = getattr(sample, "nbytes", None)
    if isinstance(found, int):
        return found
    if isinstance(sample, (bytes, bytearray, memoryview)):
        return len(sample)
    if isinstance(sample, str):
        return len(sample.encode("utf-8", "replace"))
    if isinstance(sample, dict):
        return sum(map(size_of, sample.values()))
    if isinstance(sample, (list, tuple, set, frozenset)):
        return sum(map(size_of, sample))
    return 8  # a number, as it is in a tensor


def _fit(machine: Machine, ranks: int, wanted: int, batch_bytes: int) -> tuple[int, int, str]:
    """Return workers and prefetch that fit into memory, and what limited them."""
    limit = ""
    for workers in range(wanted, 0, -1):
        for prefetch in range(PREFETCH, 0, -1) if workers == 1 else (PREFETCH, 3, LEAST_PREFETCH):
            problem = _problem(machine, ranks, workers, workers * prefetch * batch_bytes)
            if not problem:
                return workers, prefetch, limit
            limit = limit or problem
    return 0, 1, limit


def _problem(machine: Machine, ranks: int, workers: int, ahead_bytes: int) -> str:
    memory, shm = machine.memory_bytes, machine.shm_bytes
    if shm is not None and ahead_bytes * ranks > SHM_SHARE * shm:
        return f"shared memory has {shm / MIB:.0f} MiB free (in a container: --shm-size)"
    need_bytes = (ahead_bytes + workers * WORKER_BYTES) * ranks
    # A single worker is worth more of it than a share.
    most = 1.0 if workers == 1 else MEMORY_SHARE
    if memory is not None and need_bytes > most * memory:
        return f"{machine.memory_from} is {memory / MIB:.0f} MiB"
    return ""


def _why_pin(machine: Machine, given: bool | None) -> str:  # noqa: FBT001 - None is a third
    if given is not None:
        return "as asked for"
    if machine.gpu:
        return "there is a GPU: copies from pinned memory run beside computing"
    return "no GPU is seen: pinning would only cost"


def _check(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {value!r} is no whole number")
    if value < 1:
        raise ValueError(f"{name}: {value} is less than 1")
