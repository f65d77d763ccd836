"""What this process may use of its machine: cores, memory, shared memory, ranks beside it."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GPUS = ("dev/nvidiactl", "dev/kfd")
"""Device files of CUDA and ROCm. torch.cuda.is_available() would make later forks unsafe."""
RANKS = ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE")
NO_LIMIT = 1 << 60
"""cgroup v1 says "no limit" with a number near 2**63."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Limits of this process; sizes in bytes, None where nothing tells."""

    cores: float
    cores_from: str
    memory_bytes: int | None = None
    memory_from: str = ""
    shm_bytes: int | None = None
    gpu: bool = False


def ranks_here(environment: Mapping[str, str]) -> tuple[int, str]:
    """Return how many training processes share this node, and which variable says so."""
    for name in RANKS:
        with contextlib.suppress(ValueError, KeyError):
            ranks = int(environment[name])
            if ranks > 0:
                return ranks, name
    return 1, ""


def look(root: Path = Path("/")) -> Machine:
    """Look at this process's machine; ``root`` is where the file system is looked at."""
    cores, cores_from = float(len(os.sched_getaffinity(0))), "CPU affinity"
    quota = _quota(root)
    if quota is not None and quota < cores:
        cores, cores_from = quota, "CPU quota of the cgroup"
    memory = _available(root)
    memory_from = "available memory"
    limit = _memory_left(root)
    if limit is not None and (memory is None or limit < memory):
        memory, memory_from = limit, "memory limit of the cgroup"
    gpu = any((root / device).exists() for device in GPUS)
    return Machine(cores, cores_from, memory, memory_from, _shm(root), gpu)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's cgroup and of those around it, v2 and v1."""
    base = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        top = base / controller if names else base
        own = top / path.lstrip("/")
        yield own
        for above in own.parents:
            if above == base or top not in (above, *above.parents):
                break
            yield above
        yield top  # in a container the path may be that of the host, and not be here


def _quota(root: Path) -> float | None:
    found = [_quota_of(group) for group in _groups(root, "cpu")]
    return min((cores for cores in found if cores is not None), default=None)


def _quota_of(group: Path) -> float | None:
    fields = _text(group / "cpu.max").split()
    if not fields:
        fields = [_text(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):
        cores = int(fields[0]) / int(fields[1])  # "max" is no number: no quota
        return cores if cores > 0 else None
    return None


def _memory_left(root: Path) -> int | None:
    found = [_memory_of(group) for group in _groups(root, "memory")]
    return min((left for left in found if left is not None), default=None)


def _memory_of(group: Path) -> int | None:
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        with contextlib.suppress(ValueError):
            most = int(_text(group / limit))
            if most < NO_LIMIT:
                return max(0, most - _number(group / used))
    return None


def _available(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            with contextlib.suppress(ValueError, IndexError):
                return int(line.split()[1]) * 1024
    return None


def _shm(root: Path) -> int | None:
    try:
        found = os.statvfs(root / "dev/shm")  # where torch's workers put batches
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _number(path: Path) -> int:
    with contextlib.suppress(ValueError):
        return int(_text(path))
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
