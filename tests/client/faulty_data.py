"""Data sets that fail where a schedule says so, each fault once, in whichever process."""

from __future__ import annotations

import os
import random
import signal
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

if TYPE_CHECKING:
    from pathlib import Path

FAULTS = ("reset", "timeout", "refused", "kill", "exit", "leave")
RETRIED = FAULTS[:3]
SAMPLES = 41


class Once:
    """Faults that happen once each, by files that are made: ``{place: (fault, ...)}``."""

    def __init__(self, folder: Path, faults: dict[Any, tuple[str, ...]]) -> None:
        self.folder = folder
        self.faults = faults

    def strike(self, place: Any) -> None:
        """Do what the schedule has for this place, if it is not done yet."""
        for number, fault in enumerate(self.faults.get(place, ())):
            if self._claim(f"{place}-{number}"):
                _do(fault)

    @property
    def struck(self) -> int:
        """How many faults happened."""
        return len(list(self.folder.iterdir()))

    def _claim(self, name: str) -> bool:
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def _do(fault: str) -> None:
    if fault == "reset":
        raise ConnectionResetError(104, "Connection reset by peer")
    if fault == "timeout":
        raise TimeoutError("timed out")
    if fault == "refused":
        raise RuntimeError("the read failed") from ConnectionRefusedError(111, "refused")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        os._exit(3)
    if fault == "leave":
        raise SystemExit(0)
    if fault == "half":
        Connection._send = _send_half  # type: ignore[attr-defined]
        return
    raise AssertionError(fault)


def _send_half(connection: Connection, content: Any) -> None:
    """End in the middle of a message, as if all were well."""
    os.write(connection.fileno(), bytes(content)[: len(content) // 2])
    os._exit(0)


def draw() -> tuple[float, float]:
    """Draw as augmentation does."""
    return torch.rand(1).item(), random.random()


class MapData(Dataset[Any]):
    """``SAMPLES`` samples: index, what was drawn before the read, and after it."""

    def __init__(self, once: Once | None = None) -> None:
        self.once = once

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        first = draw()
        if self.once is not None:
            self.once.strike(index)
        return (index, *first, *draw())


class BatchedData(MapData):
    """Reads a whole batch in one request."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class IterData(IterableDataset[Any]):
    """The same, iterable, shared out among workers; the first gets fewer."""

    def __init__(self, once: Once | None = None) -> None:
        self.once = once

    def __iter__(self) -> Any:
        info = get_worker_info()
        me, workers = (info.id, info.num_workers) if info else (0, 1)
        last = SAMPLES // 2 if me == 0 else SAMPLES
        for index in range(me, last, workers):
            first = draw()
            if self.once is not None:
                self.once.strike(index)
            yield (index, *first, *draw())


class Collate:
    """A collate function of one's own, which draws and may fail as well."""

    def __init__(self, once: Once | None = None) -> None:
        self.once = once

    def __call__(self, samples: list[Any]) -> Any:
        noise = draw()
        if self.once is not None:
            self.once.strike(("collate", samples[0][0]))
        return [[sample[0] for sample in samples], [sample[1:] for sample in samples], noise]


def plain(batch: Any) -> Any:
    """Return a batch as something that can be compared."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, (list, tuple)):
        return [plain(part) for part in batch]
    return batch
