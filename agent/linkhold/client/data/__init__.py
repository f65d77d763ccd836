"""Data that survives: reads that are tried again in place, workers that are replaced.

::

    loader = hold.data(DataLoader(dataset, num_workers=4, shuffle=True))
    for batch in loader: ...

or, where the loader is made elsewhere, ``retrying(dataset)`` alone. See docs/data.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.client.data.gate import StateGate
from linkhold.client.data.rebuilds import WorkersLost
from linkhold.client.data.suggest import Suggestion, suggest_loader
from linkhold.client.retry.policy import MOST_RETRIES, Policy, check_seconds
from linkhold.client.voice import Voice

if TYPE_CHECKING:
    import logging
    import os
    from collections.abc import Callable

    from linkhold.client.data.datasets import Resume
    from linkhold.client.data.gate import Gate

__all__ = ["StateGate", "Suggestion", "WorkersLost", "policy_for", "retrying", "suggest_loader"]

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
SPREAD_S = 2.0
"""Less than for uploads: all ranks wait for the one whose data comes last."""


def retrying(
    dataset: Any,
    *,
    max_wait_s: float = 900.0,
    resume: Resume | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    logger: logging.Logger | None = None,
) -> Any:
    """Return ``dataset`` as one whose reads are tried again, in whichever process they happen.

    Works with map-style and iterable data sets, in workers that are forked or spawned. Errors of
    network and storage (:func:`linkhold.client.retry.families.family`) are retried with full
    jitter for at most ``max_wait_s`` seconds per read; while the node's agent says that the
    network is down there is no attempt. All other errors pass unchanged. A retried read starts
    with the random state of its first attempt.

    An iterable data set is read again from its start, and what was delivered is left out;
    ``resume(dataset, n)`` may return an iterator that goes on after ``n`` samples instead.

    Raises :class:`TypeError` or :class:`ValueError` for an argument that is wrong.
    """
    folder = None if run_dir is None else Path(run_dir).expanduser().absolute()
    return around(dataset, policy_for(max_wait_s), StateGate(folder), Voice(logger), resume)


def policy_for(max_wait_s: float) -> Policy:
    """Return how reads are tried again: for so many seconds each, however many attempts that is.

    Raises :class:`TypeError` or :class:`ValueError` for what is no time.
    """
    check_seconds("max_wait_s", max_wait_s, above_zero=True)
    return Policy(MOST_RETRIES, max_wait_s, FIRST_PAUSE_S, LONGEST_PAUSE_S, SPREAD_S)


def around(
    dataset: Any,
    policy: Policy,
    gate: Gate,
    voice: Voice,
    resume: Resume | None = None,
) -> Any:
    """Return ``dataset`` with retries as given; one that has them already as it is.

    Raises :class:`TypeError` for what is no data set.
    """
    from torch.utils.data import IterableDataset, IterDataPipe, MapDataPipe  # noqa: PLC0415

    from linkhold.client.data.datasets import RetryingIterable, RetryingMap  # noqa: PLC0415
    from linkhold.client.data.retrier import Retrier  # noqa: PLC0415
    from linkhold.client.data.shared import Shared  # noqa: PLC0415 - brings ctypes

    if isinstance(dataset, (RetryingMap, RetryingIterable)):
        return dataset
    if isinstance(dataset, (IterDataPipe, MapDataPipe)):
        raise TypeError(
            f"retrying: {type(dataset).__name__} is a DataPipe, which torch gave up: its shards "
            "and seeds are set from outside. Make it a Dataset or IterableDataset"
        )
    retrier = Retrier(policy, gate, Shared(), voice)
    if isinstance(dataset, IterableDataset):
        return RetryingIterable(dataset, retrier, resume)
    if not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"retrying: {type(dataset).__name__} is no data set: neither a "
            "torch.utils.data.IterableDataset nor something with __getitem__"
        )
    return RetryingMap(dataset, retrier)


def surviving(
    loader: Any,
    *,
    policy: Policy,
    gate: Gate,
    voice: Voice,
    max_rebuilds: int,
    on_wait: Callable[[], object],
) -> Any:
    """Return what :meth:`linkhold.client.Hold.data` returns; see there."""
    from linkhold.client.data.loader import Data, check  # noqa: PLC0415 - brings torch's words

    inner = getattr(loader, "base_dataloader", None)
    if inner is not None:  # accelerate's, which moves batches to the device: stays outermost
        if not isinstance(inner, Data):
            check(inner)
            dataset = around(inner.dataset, policy, gate, voice)
            loader.base_dataloader = Data(inner, dataset, voice, max_rebuilds, on_wait)
        return loader
    if isinstance(loader, Data):
        return loader
    check(loader)
    dataset = around(loader.dataset, policy, gate, voice)
    return Data(loader, dataset, voice, max_rebuilds, on_wait)
