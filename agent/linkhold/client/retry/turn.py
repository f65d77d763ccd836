"""The way of one call to its next attempt: when may it be made, and how long to pause till then.

Nothing here sleeps: :meth:`Turn.pause_s` is asked again and again, by a thread or by a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.client.retry.breaker import State
from linkhold.client.retry.dependency import Ticket
from linkhold.client.retry.errors import BudgetSpent, NoAttempt

if TYPE_CHECKING:
    import random

    from linkhold.client.retry.dependency import Dependency
    from linkhold.client.retry.policy import Policy

SLICE_S = 0.25
"""Longest pause at a time: watchdogs see that the thread lives, and a recovery is seen soon."""
SLOT_LOOK_S = 0.05
FIRST_LOOK_S = 0.01
SHUT = "its breaker is open"


class Turn:
    """Decides over one attempt. ``failed`` is the error that it follows, None for the first.

    Waits at most until ``deadline_s`` of the dependency's clock.
    """

    def __init__(
        self,
        dependency: Dependency,
        policy: Policy,
        *,
        deadline_s: float,
        failed: BaseException | None,
        dice: random.Random,
    ) -> None:
        self.ticket: Ticket | None = None
        self._dependency = dependency
        self._policy = policy
        self._deadline_s = deadline_s
        self._failed = failed
        self._dice = dice
        self._why: str | None = None
        self._held_since_s: float | None = None
        self._queued = False
        self._start_s: float | None = None
        self._spread = self._by_breaker = False

    def pause_s(self) -> float:
        """Return the seconds to sleep before asking again; 0 once :attr:`ticket` is there.

        Raises :class:`NoAttempt` or the error of the last attempt at the time limit, and
        :class:`BudgetSpent`.
        """
        now_s = self._dependency.now_s()
        pause_s = self._look(now_s)
        if pause_s <= 0:
            self._note_held(now_s)
            return 0.0
        left_s = self._deadline_s - now_s
        if left_s <= 0:
            self._note_held(now_s)
            self._give_up()
        return min(pause_s, SLICE_S, left_s)

    def _look(self, now_s: float) -> float:
        """Return 0 and take the ticket if nothing is in the way, else about how long it is."""
        dependency = self._dependency
        if not dependency.node.looked:
            return FIRST_LOOK_S
        why = dependency.heed()
        if why is not None:
            return self._hold(why, now_s)
        state = dependency.breaker.state
        if state is State.OPEN:
            return self._hold(SHUT, now_s, by_breaker=True)
        # The probe of a breaker that opened by itself is spread by the breaker's own dice.
        if self._spread and not (self._by_breaker and state is State.HALF_OPEN):
            self._spread = False
            self._start_s = now_s + self._dice.uniform(0.0, self._policy.spread_s)
        if self._start_s is not None and now_s < self._start_s:
            return self._start_s - now_s
        return self._take(now_s)

    def _take(self, now_s: float) -> float:
        parts, slot = self._dependency.parts, None
        if parts.slots is not None:
            slot = parts.slots.take()
            if slot is None:
                return self._queue()
        permit = parts.breaker.admit()
        if permit is None:
            if parts.slots is not None and slot is not None:
                parts.slots.leave(slot)
            return self._hold(SHUT, now_s, by_breaker=True)
        ticket = Ticket(parts, permit, slot)
        self._pay(ticket)
        if permit.probe:
            self._dependency.record.count("probes")
        self.ticket = ticket
        return 0.0

    def _pay(self, ticket: Ticket) -> None:
        """Let the budget pay for a retry; a first attempt is free."""
        budget = ticket.parts.budget
        if self._failed is None or budget is None or budget.spend():
            return
        self._dependency.withdraw(ticket)
        self._dependency.record.count("budget_spent")
        limits = ticket.parts.limits
        raise BudgetSpent(
            f"{self._dependency.name}: this node has spent its {limits.budget} retries in "
            f"{limits.budget_window_s:g} s; it is not tried again now"
        ) from self._failed

    def _hold(self, why: str, now_s: float, *, by_breaker: bool = False) -> float:
        if self._held_since_s is None:
            self._held_since_s = now_s
            self._dependency.record.trouble("held_calls", why, now_s)
        self._why, self._spread, self._by_breaker = why, True, by_breaker
        return SLICE_S

    def _queue(self) -> float:
        if not self._queued:
            self._queued = True
            self._dependency.record.count("queued_calls")
        return self._dice.uniform(SLOT_LOOK_S / 2, SLOT_LOOK_S)

    def _note_held(self, now_s: float) -> None:
        if self._held_since_s is not None:
            self._dependency.record.count("held_s", now_s - self._held_since_s)

    def _give_up(self) -> None:
        if self._failed is not None:
            self._dependency.record.count("given_up")
            raise self._failed
        name, limit_s = self._dependency.name, self._policy.time_limit_s
        why = self._why or ("all calls at once are taken" if self._queued else "no word yet")
        raise NoAttempt(
            f"{name}: no attempt within time_limit_s={limit_s:g}: {why}; raise time_limit_s, or "
            "see what `linkhold status` says"
        )
