"""How often the workers of one pass may be started anew: pure, and the error when that is over."""

from __future__ import annotations

from dataclasses import dataclass

from linkhold.model import LinkholdError

IN_VAIN = 3
"""So many times in a row without a single batch: the next would die of the same batch."""
SHOWN = 80
"""So many characters of a batch's indices are shown."""


class WorkersLost(LinkholdError, RuntimeError):
    """The workers of a loader died too often; no batch was left out or came twice before.

    A RuntimeError as well, because torch's own error about dead workers is one.
    """


@dataclass(slots=True)
class Rebuilds:
    """Counts rebuilds against their limits; ``most`` is that of one pass."""

    most: int
    total: int = 0
    in_vain: int = 0
    """Rebuilds since the last batch that was delivered."""
    _pass: int = 0

    def begin(self) -> None:
        """Start a new pass."""
        self._pass = self.in_vain = 0

    def progress(self) -> None:
        """Note that a batch was delivered."""
        self.in_vain = 0

    def spend(self, cause: str, delivered: int, due: object) -> str:
        """Count one more rebuild, and return a line about it.

        ``due`` is what the batch consists of that is waited for. Raises :class:`WorkersLost` at
        the limit.
        """
        self.in_vain += 1
        self._pass += 1
        if self.in_vain > IN_VAIN:
            indices = "" if due is None else f" (samples {_short(due)})"
            raise WorkersLost(
                f"data workers died {self.in_vain} times in a row while batch {delivered}"
                f"{indices} was read: {cause}. Read these samples with num_workers=0 to see why; "
                "a worker that is killed by SIGKILL is mostly out of memory, by SIGBUS out of "
                "shared memory: ask linkhold.client.data.suggest_loader(), or `dmesg`"
            )
        if self._pass > self.most:
            raise WorkersLost(
                f"data workers died {self._pass} times in this pass, {self.most} is the limit "
                f"(max_rebuilds), at batch {delivered}: {cause}. They are mostly out of memory: "
                "fewer workers, a smaller prefetch_factor, or `dmesg`"
            )
        self.total += 1
        return f"data workers are started anew at batch {delivered} ({self._pass}): {cause}"


def _short(due: object) -> str:
    text = repr(due)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
