"""The reduction of the vector: torch.distributed, gloo, a group of its own, CPU tensors.

Every rank sends its vector to every other and takes the maxima itself. That is an all-reduce(MAX)
in one hop; gloo's own is a ring, 2 x (ranks - 1) hops one after the other, and for so few bytes
the hops are the cost (8 ranks on 2 busy cores: 10 ms against 3 ms). One operation, so that a rank
may begin it and go on (:meth:`TorchGroup.start`), which a gather and a broadcast are not.

A group of its own, so that no order of collectives on the training's group is disturbed; gloo, so
that no CUDA stream is waited for. ``torch.distributed.new_group()`` does not take over the timeout
of ``init_process_group()``, it falls back to the backend's default: it is passed on here.
"""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SLICE = timedelta(seconds=0.4)
"""Longest time without a sign of life to watchdogs, and without looking for a Ctrl-C."""
DEFAULT_TIMEOUT_S = 1800.0
"""torch.distributed.constants: default_pg_timeout."""


class Late(Exception):
    """An agreement was not reached in the time given; the group is not to be used any more."""


def world_size() -> int:
    """Return how many ranks torch.distributed has here; 1 where it is not initialised."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return 1
    return int(dist.get_world_size())


def timeout_s() -> float:
    """Return the timeout of the training's own group in seconds."""
    import torch  # noqa: PLC0415 - training loads it, this package does not
    from torch.distributed import distributed_c10d  # noqa: PLC0415

    found: list[float] = []
    for kind in ("cpu", "cuda"):
        # Each device of a group like "cpu:gloo,cuda:nccl" has a backend with options of its own.
        with contextlib.suppress(RuntimeError, AttributeError, TypeError, ValueError):
            group = distributed_c10d._get_default_group()  # noqa: SLF001 - no public way to ask
            backend: Any = group._get_backend(torch.device(kind))  # noqa: SLF001
            backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
            found.append(backend.options._timeout.total_seconds())  # noqa: SLF001
    return min(found, default=DEFAULT_TIMEOUT_S)


class TorchGroup:
    """The ranks of the job; made by all of them at the same place, as any group."""

    def __init__(self, length: int) -> None:
        import torch  # noqa: PLC0415
        import torch.distributed as dist  # noqa: PLC0415

        self.timeout_s = timeout_s()
        self.ranks = dist.get_world_size()
        self.rank = dist.get_rank()
        self._group: Any = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout_s))
        self._exchange, self._destroy = dist.all_to_all_single, dist.destroy_process_group
        self._vector = torch.tensor
        self._mine = torch.zeros((self.ranks, length), dtype=torch.int32)
        self._all = torch.zeros_like(self._mine)

    def maxima(
        self,
        elements: Sequence[int],
        feed: Callable[[], object],
        until_s: float | None = None,
    ) -> list[int]:
        """Return the maximum of each element over all ranks; every rank must call it.

        ``feed`` is called in between while other ranks are waited for. Raises what the collective
        raises: :class:`RuntimeError` when a rank died, or at the group's timeout; :class:`Late`
        after ``until_s`` (time.monotonic()).
        """
        work = self.start(elements)
        while not self._wait(work):
            feed()
            if until_s is not None and time.monotonic() >= until_s:
                raise Late
        return [int(value) for value in self._all.amax(0).tolist()]

    def start(self, elements: Sequence[int]) -> Any:
        """Enter an agreement without waiting for the others; see :meth:`ended`."""
        self._mine[:] = self._vector(elements, dtype=self._mine.dtype)
        return self._exchange(self._all, self._mine, group=self._group, async_op=True)

    def ended(self, work: Any) -> bool:
        """Wait a moment for all others to enter what :meth:`start` began; tell whether they did."""
        return self._wait(work)

    @staticmethod
    def _wait(work: Any) -> bool:
        try:
            work.wait(SLICE)
        except RuntimeError:
            if not work.is_completed():
                return False  # of the slice alone: gloo goes on with it
            work.wait()  # raises what it failed with, or nothing when it came true just now
        return True

    def destroy(self) -> None:
        """Close the connections: whoever waits for this rank is told at once."""
        group, self._group = self._group, None
        # The program may have ended torch.distributed before.
        with contextlib.suppress(RuntimeError, ValueError, AssertionError):
            if group is not None:
                self._destroy(group)
