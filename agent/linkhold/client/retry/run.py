"""One call with all its attempts: tenacity turns the wheel, what decides is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from linkhold.client import fork
from linkhold.client.retry.nesting import Mark
from linkhold.client.retry.turn import SLICE_S, Turn
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    import random
    from types import TracebackType

    from typing_extensions import Self

    from linkhold.client.retry.dependency import Dependency, Ticket
    from linkhold.client.retry.policy import Policy


class _Manager(Protocol):
    """What is used of tenacity's AttemptManager."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None: ...


class Attempt:
    """One attempt: ``with attempt:`` around what may fail. ``number`` counts from 1."""

    def __init__(self, run: Run, manager: _Manager) -> None:
        self.number = run.made + 1
        self._run = run
        self._manager = manager
        self._mark: Mark | None = None

    def __enter__(self) -> Self:
        if self._mark is not None or self._run.ticket is None:
            raise LinkholdError(f"{self._run.name}: an attempt can be entered only once")
        self._mark = Mark()
        self._run.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if self._mark is not None:
            self._mark.end()
        final = self._run.end(error)
        # What is not tried again leaves here; tenacity would raise it at the next turn of the loop.
        return False if final else self._manager.__exit__(kind, error, trace)

    def check(self) -> None:
        """Raise :class:`LinkholdError` if the loop went on without having entered it."""
        if self._mark is None:
            raise LinkholdError(
                f"{self._run.name}: write `with attempt:` inside the loop, around what may fail"
            )


class Nested:
    """The one attempt of a retry inside another one: what fails is the outer one's."""

    number = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Run:
    """One call of a dependency, from its first attempt to its end."""

    def __init__(self, dependency: Dependency, policy: Policy, dice: random.Random) -> None:
        self.name = dependency.name
        self.made = 0
        self.ticket: Ticket | None = None
        self._dependency = dependency
        self._policy = policy
        self._dice = dice
        self._deadline_s = dependency.now_s() + policy.time_limit_s
        self._error: BaseException | None = None
        self._again = False
        self._pause_s = 0.0
        dependency.record.count("calls")

    def turn(self) -> Turn:
        """Return the way to the next attempt."""
        self._dependency.node.listen(self._dependency)
        return Turn(
            self._dependency,
            self._policy,
            deadline_s=self._deadline_s,
            failed=self._error,
            dice=self._dice,
        )

    def begin(self) -> None:
        """Count an attempt."""
        self.made += 1
        self._dependency.record.count("attempts")
        if self.made > 1:
            self._dependency.record.count("retries")

    def end(self, error: BaseException | None) -> bool:
        """Take the end of an attempt; return whether ``error`` must not be tried again."""
        ticket, self.ticket = self.ticket, None
        found = None if ticket is None else self._dependency.end(ticket, error)
        if found is not None:
            widest_s = self._policy.widest_s(self.made)
            self._pause_s = (found.retry_after_s or 0.0) + self._dice.uniform(0.0, widest_s)
        self._again = found is not None
        self._error = error if self._again else None
        return error is not None and not self._again

    def close(self) -> None:
        """Give back what a loop that was left without an attempt still holds."""
        ticket, self.ticket = self.ticket, None
        if ticket is not None:
            self._dependency.withdraw(ticket)

    def wheel(self, sleep: Any, *, asynchronous: bool = False) -> Any:
        """Return tenacity's loop; ``sleep`` pauses and then takes the next turn."""
        fork.import_whole("tenacity")
        import tenacity  # noqa: PLC0415 - it imports asyncio: training that never retries has none

        kind = tenacity.AsyncRetrying if asynchronous else tenacity.Retrying
        return kind(
            sleep=sleep,
            stop=lambda _: self._stops(),
            wait=lambda _: self._pause_s,
            retry=lambda _: self._again,
            reraise=True,
        )

    def slices(self, pause_s: float) -> list[float]:
        """Return a pause in slices, none of them longer than watchdogs like."""
        whole, rest = divmod(pause_s, SLICE_S)
        return [SLICE_S] * int(whole) + [rest]

    def _stops(self) -> bool:
        ends_s = self._dependency.now_s() + self._pause_s
        stops = self.made >= self._policy.attempts or ends_s >= self._deadline_s
        if stops:
            self._error = None  # its traceback holds the caller's frames, and with them tensors
            self._dependency.record.count("given_up")
        return stops
