"""The random generators of a training process, kept in a checkpoint and set back from it.

What is kept are plain numbers, texts and tensors: ``torch.load(weights_only=True)`` takes them,
and whoever reads a checkpoint runs nothing that is in it.
"""

from __future__ import annotations

import sys
from typing import Any

from linkhold.client.data import randomness


def keep() -> dict[str, Any]:
    """Return the state of Python's, numpy's and torch's generators, GPUs included."""
    own, of_numpy, of_torch = randomness.capture()
    numpy = None if of_numpy is None else [of_numpy[0], of_numpy[1].tolist(), *of_numpy[2:]]
    return {"python": list(own), "numpy": numpy, "torch": of_torch, "cuda": _of_gpus()}


def set_back(kept: dict[str, Any]) -> None:
    """Set the generators to what :func:`keep` returned.

    Raises :class:`ValueError`, :class:`TypeError`, :class:`KeyError` or :class:`RuntimeError` for
    what it did not return. Generators of GPUs are left alone where there is another number of them.
    """
    version, state, pair = kept["python"]
    numpy = kept["numpy"]
    if numpy is not None:
        import numpy as np  # noqa: PLC0415 - it was imported when this was kept

        numpy = (numpy[0], np.array(numpy[1], dtype=np.uint32), *numpy[2:])
    randomness.restore(((version, tuple(state), pair), numpy, kept["torch"]))
    if kept["cuda"] and len(kept["cuda"]) == len(_of_gpus()):
        sys.modules["torch"].cuda.set_rng_state_all(kept["cuda"])


def _of_gpus() -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return list(torch.cuda.get_rng_state_all())
