"""The global random generators that augmentation uses: Python's, numpy's and torch's (CPU).

A read that is tried again must not have drawn twice, and a worker that takes the place of a dead
one goes on where that one was. Generators that a data set made itself are its own business.
"""

from __future__ import annotations

import pickle
import random
import sys
from typing import Any


def capture() -> tuple[Any, ...]:
    """Return the state of every global generator of this process, of what is imported."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    return (
        random.getstate(),
        None if numpy is None else numpy.random.get_state(),
        None if torch is None else torch.get_rng_state(),
    )


def restore(state: tuple[Any, ...]) -> None:
    """Set the generators back to what :func:`capture` returned."""
    own, of_numpy, of_torch = state
    random.setstate(own)
    if of_numpy is not None:
        sys.modules["numpy"].random.set_state(of_numpy)
    if of_torch is not None:
        sys.modules["torch"].set_rng_state(of_torch)


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Tell whether two states are equal; one that numpy or torch joined later is another."""
    own, of_numpy, of_torch = one
    if own != other[0] or (of_numpy is None, of_torch is None) != (
        other[1] is None,
        other[2] is None,
    ):
        return False
    if of_numpy is not None and not _same_numpy(of_numpy, other[1]):
        return False
    return of_torch is None or bool(of_torch.equal(other[2]))


def _same_numpy(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    # name, key (an array), position, and whether half of a pair of normal numbers is kept
    return one[2:] == other[2:] and one[1].tobytes() == other[1].tobytes()


def pack(state: tuple[Any, ...]) -> bytes:
    """Return what :func:`capture` returned as bytes, about 11 kB."""
    own, of_numpy, of_torch = state
    torch = None if of_torch is None else of_torch.numpy().tobytes()
    return pickle.dumps((own, of_numpy, torch))


def unpack(content: bytes) -> None:
    """Set the generators to what :func:`pack` made of it in another worker of this program."""
    own, of_numpy, of_torch = pickle.loads(content)  # noqa: S301 - from our own worker's queue
    if of_numpy is not None:
        import numpy as np  # noqa: F401, PLC0415 - the old worker had it
    if of_torch is not None:
        import torch  # noqa: PLC0415 - never at import time of the client

        of_torch = torch.frombuffer(bytearray(of_torch), dtype=torch.uint8)
    restore((own, of_numpy, of_torch))
