"""What an error of a loader's iterator means."""

from __future__ import annotations

import multiprocessing
from typing import Any

import pytest
from torch._utils import ExceptionWrapper

from linkhold.client.data.verdict import Verdict, judge


@pytest.mark.parametrize(
    ("text", "killed", "verdict"),
    [
        ("DataLoader timed out after 0.5 seconds", False, Verdict.WAIT),
        ("DataLoader worker (pid(s) 7, 8) exited unexpectedly", False, Verdict.REBUILD),
        ("DataLoader worker (pid 7) is killed by signal: Killed. ", True, Verdict.REBUILD),
        ("DataLoader worker (pid 7) is killed by signal: Killed. ", False, Verdict.OTHER),
        ("Pin memory thread exited unexpectedly", False, Verdict.REBUILD),
        ("Too many open files. Communication with the workers is", True, Verdict.OTHER),
        ("CUDA error: out of memory", True, Verdict.OTHER),
    ],
)
def test_texts_of_torch(text: str, killed: bool, verdict: Verdict) -> None:  # noqa: FBT001
    """Dead workers of our own loader are replaced; all else waits or passes."""
    assert judge(RuntimeError(text), killed=killed) is verdict
    assert judge(ValueError(text), killed=killed) is Verdict.OTHER


def _fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "reset"), RuntimeError("no"), KeyError(1)]
)
def test_an_error_of_the_data_set(error: Exception) -> None:
    """What a worker's data set raised stands in the place of a batch, whatever it looks like."""
    wrapper: Any = ExceptionWrapper
    try:
        _fail(error)
    except Exception:  # noqa: BLE001
        carried = wrapper(where="in DataLoader worker process 0")
    with pytest.raises(type(error)) as caught:
        carried.reraise()

    assert judge(caught.value, killed=True) is Verdict.BATCH


def test_an_error_on_the_way_from_the_workers() -> None:
    """A queue whose other end is gone is a reason for new workers, not a network fault."""
    near, far = multiprocessing.Pipe(duplex=False)
    far.close()
    with pytest.raises(EOFError) as caught:
        near.recv()
    near.close()

    assert judge(caught.value, killed=False) is Verdict.REBUILD
    assert judge(EOFError("in a sampler"), killed=False) is Verdict.OTHER
