"""One thing that calls depend on, with all that its calls of this process share."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold.client import fork
from linkhold.client.retry import answers
from linkhold.client.retry.breaker import Breaker, Permit, file_kind
from linkhold.client.retry.budget import Budget
from linkhold.client.retry.families import Family, family
from linkhold.client.retry.keep import Shared
from linkhold.client.retry.node import Node, node_for
from linkhold.client.retry.policy import NODE, Limits
from linkhold.client.retry.record import Record, told
from linkhold.client.retry.slots import Slots
from linkhold.client.retry.standing import Rules
from linkhold.client.settings import absolute
from linkhold.client.voice import Voice

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Parts:
    """What the limits of a dependency are kept with; replaced as a whole."""

    limits: Limits
    breaker: Breaker
    budget: Budget | None
    slots: Slots | None


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave for one attempt: given back by :meth:`Dependency.end`."""

    parts: Parts
    permit: Permit
    slot: int | None


class Dependency:
    """A storage, a tracker, a store: whatever can fail as one. Safe from any thread.

    Raises :class:`ValueError` for an empty or overlong ``name``.
    """

    def __init__(
        self,
        name: str,
        *,
        node: Node,
        limits: Limits | None = None,
        voice: Voice | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"dependency: {name!r} is no text")
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise ValueError(f"dependency: {name!r} is not 1 to {LONGEST_NAME} printable letters")
        self.name = name
        self.node = node
        self.now_s = now_s
        self._voice = voice or Voice()
        self.record = Record(name, self._voice)
        self.parts = self._made(limits or Limits())
        fork.remember(self)

    @property
    def counters(self) -> Mapping[str, float]:
        """What happened so far in this process, see :data:`linkhold.client.retry.record.NAMES`."""
        return self.record.counters

    @property
    def breaker(self) -> Breaker:
        """The breaker, of the node or of this process."""
        return self.parts.breaker

    def limit(self, **changes: Any) -> None:
        """Change its limits; calls under way keep to the old ones.

        Raises :class:`TypeError` or :class:`ValueError` for what :class:`Limits` does not allow.
        """
        self.parts = self._made(replace(self.parts.limits, **changes))

    def heed(self) -> str | None:
        """Return why the node wants no attempt now, and open or half-open the breaker by it."""
        parts = self.parts
        why = self.node.why_not(parts.limits.stop_on) if parts.limits.stop_on else None
        if why is None:
            parts.breaker.recover()
        else:
            parts.breaker.trip()
        return why

    def end(self, ticket: Ticket, error: BaseException | None) -> Family | None:
        """Take an attempt's end; return the family of ``error`` if it is worth another one."""
        found = None if error is None else family(error)
        breaker, permit = ticket.parts.breaker, ticket.permit
        if ticket.parts.slots is not None and ticket.slot is not None:
            ticket.parts.slots.leave(ticket.slot)
        if found is not None and error is not None:
            breaker.failed(permit, found.retry_after_s)
            self.record.trouble("failed", f"{found.name}: {told(error)}", self.now_s())
        elif error is None or answers.answer(error) is not None:
            breaker.succeeded(permit)  # an answer like 404 is one of a dependency that works
            self.record.count("succeeded" if error is None else "refused")
            self.record.works(self.now_s())
        else:
            breaker.forgot(permit)
            self.record.count("refused")
        return found

    def withdraw(self, ticket: Ticket) -> None:
        """Take back a ticket of which nothing came."""
        ticket.parts.breaker.forgot(ticket.permit)
        if ticket.parts.slots is not None and ticket.slot is not None:
            ticket.parts.slots.leave(ticket.slot)

    def after_fork(self) -> None:
        """Become the child's own: new locks, new counts."""
        self.record.after_fork()
        self.parts.breaker.after_fork()
        if self.parts.budget is not None:
            self.parts.budget.after_fork()

    def _made(self, limits: Limits) -> Parts:
        rules = Rules(limits.failures, limits.open_s, limits.longest_open_s)
        keep = Shared(self.name, file_kind(rules), self._voice) if limits.breaker == NODE else None
        return Parts(
            limits=limits,
            breaker=Breaker(
                failures=limits.failures,
                open_s=limits.open_s,
                longest_open_s=limits.longest_open_s,
                now_s=self.now_s,
                keep=keep,
            ),
            budget=None
            if limits.budget is None
            else Budget(self.name, limits.budget, limits.budget_window_s, self._voice),
            slots=None
            if limits.calls_at_once is None
            else Slots(self.name, limits.calls_at_once, self._voice),
        )


_known: dict[tuple[str, Path | None], Dependency] = {}


def dependency(name: str, *, run_dir: str | os.PathLike[str] | None = None) -> Dependency:
    """Return the dependency of this name; all of this process's calls of it share it.

    ``run_dir`` is the run folder of the agent to listen to, as in ``Hold.connect``. Raises
    :class:`ValueError` or :class:`TypeError` for a name that is none.
    """
    folder = absolute("run_dir", run_dir)
    found = _known.get((name, folder))
    if found is None:
        made = Dependency(name, node=node_for(folder))
        found = _known.setdefault((name, folder), made)
    return found


def counters() -> Mapping[str, Mapping[str, float]]:
    """Return the counters of every dependency of this process, by name."""
    return {name: known.counters for (name, _), known in tuple(_known.items())}
