"""Suggestions for loaders: by cores, memory and ranks, on made-up machines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.data import suggest_loader
from linkhold.client.data.machine import Machine, look, ranks_here
from linkhold.client.data.suggest import MOST_WORKERS, WORKER_BYTES, size_of, suggest

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30


def files(root: Path, **content: str) -> Path:
    """Write files of a made-up file system, named with two underscores for a slash."""
    for name, text in content.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_big_node_shared_by_eight_ranks() -> None:
    """Cores are shared by ranks, one is left to the trainer, and a GPU gets pinned memory."""
    machine = Machine(96, "CPU affinity", 900 * GIB, "available memory", 400 * GIB, gpu=True)
    found = suggest(machine, 8, "LOCAL_WORLD_SIZE", 64 << 20)

    assert dict(found) == {
        "num_workers": 11,
        "prefetch_factor": 4,
        "pin_memory": True,
        "persistent_workers": True,
    }
    assert "shared by 8 ranks (LOCAL_WORLD_SIZE)" in found.why["num_workers"]
    assert "2816 MiB" in found.why["prefetch_factor"]


def test_small_shared_memory_of_a_container() -> None:
    """Docker's 64 MiB of /dev/shm limit what is read ahead, and the reason says the cure."""
    machine = Machine(16, "CPU affinity", 64 * GIB, "available memory", 64 << 20)
    found = suggest(machine, 1, "", 10 << 20)

    assert found["num_workers"] * found["prefetch_factor"] * 10 <= 0.8 * 64
    assert "--shm-size" in found.why["num_workers"]


def test_a_batch_that_fits_nowhere() -> None:
    """Without room for a single batch ahead there are no workers and no arguments for them."""
    found = suggest(Machine(8, "CPU affinity", GIB, "memory limit", GIB), 1, "", 2 * GIB)

    assert dict(found) == {"num_workers": 0, "pin_memory": False, "persistent_workers": False}


@given(
    st.floats(0.1, 512),
    st.integers(1, 16),
    st.integers(0, 64 * GIB),
    st.one_of(st.none(), st.integers(0, 4096 * GIB)),
    st.one_of(st.none(), st.integers(0, 4096 * GIB)),
)
def test_properties(
    cores: float, ranks: int, batch: int, memory: int | None, shm: int | None
) -> None:
    """Whatever the machine: torch takes the arguments, each has a reason, and all of it fits."""
    from torch.utils.data import DataLoader

    found = suggest(Machine(cores, "x", memory, "y", shm), ranks, "z", batch)
    workers, prefetch = found["num_workers"], found.get("prefetch_factor", 0)
    data: Any = [1]
    loader: Any = DataLoader(data, **(found | {"num_workers": min(workers, 1)}))

    assert loader.batch_size == 1
    assert set(found.why) == set(found)
    assert 0 <= workers <= MOST_WORKERS
    assert workers <= max(1, cores / ranks)
    ahead = workers * prefetch * batch
    assert shm is None or workers == 0 or ahead * ranks <= shm
    assert memory is None or workers == 0 or (ahead + workers * WORKER_BYTES) * ranks <= memory


def test_limits_of_a_container(tmp_path: Path) -> None:
    """The quota and the memory of a cgroup count, of the own one and of those around it (v2)."""
    root = files(
        tmp_path,
        proc__self__cgroup="0::/pod/box\n",
        sys__fs__cgroup__pod__cpu_dot_max="50000 100000\n",
        sys__fs__cgroup__pod__box__cpu_dot_max="max 100000\n",
        sys__fs__cgroup__pod__box__memory_dot_max=f"{4 * GIB}\n",
        sys__fs__cgroup__pod__box__memory_dot_current=f"{GIB}\n",
        proc__meminfo="MemTotal: 99999999 kB\nMemAvailable:   67108864 kB\n",
    )
    machine = look(root)

    assert (machine.cores, machine.cores_from) == (0.5, "CPU quota of the cgroup")
    assert (machine.memory_bytes, machine.memory_from) == (3 * GIB, "memory limit of the cgroup")


def test_limits_of_an_old_container(tmp_path: Path) -> None:
    """Cgroup v1 says the same in other files, and "no limit" as a huge number."""
    root = files(
        tmp_path,
        proc__self__cgroup="5:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n",
        sys__fs__cgroup__cpu__cpu_dot_cfs_quota_us="20000\n",
        sys__fs__cgroup__cpu__cpu_dot_cfs_period_us="100000\n",
        sys__fs__cgroup__memory__memory_dot_limit_in_bytes="9223372036854771712\n",
        proc__meminfo="MemAvailable:   1048576 kB\n",
    )
    machine = look(root)

    assert machine.cores == 0.2
    assert (machine.memory_bytes, machine.memory_from) == (GIB, "available memory")


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    """Without /proc and /sys what is left is the affinity; garbage in a file is no limit."""
    machine = look(tmp_path)
    assert (machine.cores, machine.memory_bytes, machine.gpu) == (
        len(os.sched_getaffinity(0)),
        None,
        False,
    )

    root = files(
        tmp_path,
        proc__self__cgroup="0::/\nnonsense\n",
        sys__fs__cgroup__cpu_dot_max="lots",
        sys__fs__cgroup__memory_dot_max="\x00",
        proc__meminfo="MemAvailable: much\n",
        dev__kfd="",
    )
    assert look(root).memory_bytes is None
    assert look(root).gpu


def test_the_launcher_tells_the_ranks() -> None:
    """Torchrun and SLURM say how many share the node; nonsense counts as one."""
    assert ranks_here({"LOCAL_WORLD_SIZE": "8"}) == (8, "LOCAL_WORLD_SIZE")
    assert ranks_here({"SLURM_NTASKS_PER_NODE": "4"}) == (4, "SLURM_NTASKS_PER_NODE")
    assert ranks_here({"LOCAL_WORLD_SIZE": "0"}) == (1, "")
    assert ranks_here({"SLURM_NTASKS_PER_NODE": "4(x2)"}) == (1, "")


def test_the_size_of_a_sample() -> None:
    """Tensors, arrays, texts and containers are added up; a number is eight bytes."""
    import torch

    sample = {"image": torch.zeros(3, 4, 4), "label": 7, "name": "ab", "more": [np.zeros(5), b"x"]}

    assert size_of(sample) == 192 + 8 + 2 + 40 + 1


def test_this_machine() -> None:
    """Here and now: the first sample is read, and a person can read the reasons."""
    found = suggest_loader([np.zeros(1 << 17)], batch_size=4, ranks_per_node=1)
    ahead = found["num_workers"] * found["prefetch_factor"]

    assert f"{ahead} batches ahead, {4 * ahead} MiB" in str(found)
    assert len(str(found).splitlines()) == len(found)


@pytest.mark.parametrize("name", ["batch_size", "batch_bytes", "ranks_per_node"])
def test_wrong_numbers_are_named(name: str) -> None:
    """Each number is checked where it is given."""
    wrong: Any = {name: 0}
    with pytest.raises(ValueError, match=f"{name}: 0 is less than 1"):
        suggest_loader(**wrong)
    wrong[name] = 1.5
    with pytest.raises(TypeError, match=f"{name}: 1.5 is no whole number"):
        suggest_loader(**wrong)
