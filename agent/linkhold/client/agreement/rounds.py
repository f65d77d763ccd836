"""One agreement after the other: what is sent, how long it took, when the next one is."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from linkhold.client.agreement import cadence, vector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkhold.client.agreement.vector import Agreed, Wish

PART_S = 2.0
"""How long a rank that is done waits for the others to be done; they train on longer at times."""


class Group(Protocol):
    """What reduces the vector; see :class:`linkhold.client.agreement.torch_group.TorchGroup`."""

    timeout_s: float
    ranks: int
    rank: int

    def maxima(
        self,
        elements: Sequence[int],
        feed: Callable[[], object],
        until_s: float | None = None,
    ) -> list[int]:
        """Return the maximum of each element over all ranks."""

    def start(self, elements: Sequence[int]) -> Any:
        """Enter an agreement without waiting for the others."""

    def ended(self, work: Any) -> bool:
        """Wait a moment; tell whether all others entered what :meth:`start` began."""

    def destroy(self) -> None:
        """Close the connections."""


class Rounds:
    """The agreements of one rank. ``feed`` is called while it waits for the others."""

    def __init__(self, group: Group, feed: Callable[[], object]) -> None:
        self.group = group
        self.count = 0
        """Agreements so far."""
        self._feed = feed
        self._cadence = cadence.Cadence()
        self._parting: Any = None

    @property
    def every(self) -> int:
        """Steps to the next agreement."""
        return self._cadence.every

    def meet(self, wish: Wish, until_s: float | None = None) -> Agreed:
        """Agree with all other ranks; raises what :meth:`TorchGroup.maxima` raises.

        While a hold or a stop is agreed the next step agrees again. Raises
        :class:`~linkhold.client.agreement.vector.OutOfStep` when the ranks do not fit.
        """
        began_ns = time.monotonic_ns()
        known = cadence.begin(self._cadence, began_ns)
        found = self.group.maxima(self._elements(wish, known), self._feed, until_s)
        agreed = vector.decode(found)
        now_ns = time.monotonic_ns()
        known = cadence.end(known, agreed.cost_us, agreed.step_us, began_ns, now_ns)
        self._cadence = cadence.pause(known) if agreed.hold or agreed.stop else known
        self.count += 1
        return agreed

    def part(self, wish: Wish) -> bool:
        """Take part for the last time; tell whether all others came within :data:`PART_S`.

        Without them the last agreement stays open: they meet it with their next one, and learn
        from it that this rank is done. Raises :class:`RuntimeError` when one of them is gone.
        """
        last = replace(wish, leaving=True, closing=True)
        self._parting = self.group.start(self._elements(last, self._cadence))
        end_s = time.monotonic() + PART_S
        while not self.group.ended(self._parting):
            self._feed()
            if time.monotonic() >= end_s:
                return False
        return True

    @staticmethod
    def _elements(wish: Wish, known: cadence.Cadence) -> list[int]:
        return vector.encode(
            replace(wish, every=known.every, cost_us=known.cost_us, step_us=known.step_us)
        )
