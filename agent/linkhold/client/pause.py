"""A hold of the training loop itself: waiting in slices, with a limit and a word now and then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold import model
from linkhold.client.upload_handle import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.voice import Voice

RESUMABLE = 75
"""Exit code of a run that wants to be started again (EX_TEMPFAIL of sysexits.h)."""
SLICE_S = 0.25
REMIND_S = 60.0


class GiveUp(model.GiveUp, SystemExit):
    """Training was on hold for ``max_hold_s``: where nobody catches it, the exit code is 75.

    That asks a launcher to start the run again.
    """

    exit_code = RESUMABLE

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = RESUMABLE  # SystemExit took the text for it


@dataclass(frozen=True, slots=True)
class Clock:
    """The monotonic clock and the sleep of a Hold; tests pass simulated ones."""

    now_ns: Callable[[], int] = time.monotonic_ns
    sleep: Callable[[float], object] = time.sleep


class Pause:
    """Waits out one hold after the other and adds them up."""

    def __init__(self, clock: Clock, voice: Voice, max_hold_s: float) -> None:
        self.waiting_for: str | None = None
        self.gave_up: str | None = None
        """Why :class:`GiveUp` was raised, None when it was not or training went on."""
        self.on_wait: Callable[[], object] | None = None
        self._clock = clock
        self._voice = voice
        self.max_hold_s = max_hold_s
        self.holds = 0
        """How many holds there were."""
        self._earlier_s = 0.0
        self._began_ns: int | None = None
        self._hook_failed = False

    @property
    def held_s(self) -> float:
        """Seconds on hold so far, the current hold included."""
        return self._earlier_s + self._current_s(self._began_ns)

    @property
    def spent(self) -> bool:
        """Whether the current hold has lasted for as long as any may."""
        return self._current_s(self._began_ns) >= self.max_hold_s

    def give_up(self) -> GiveUp:
        """Return what is raised at the limit."""
        text = self.gave_up = f"on hold for {self.max_hold_s:g} s, the limit: {self.waiting_for}"
        self._voice.warning(f"giving up, exit code {RESUMABLE}: {text}")
        return GiveUp(text)

    def wait_out(self, why: str, look: Callable[[], str | None]) -> None:
        """Sleep until ``look()`` returns None; it says why the hold lasts.

        Raises whatever ``look`` raises (:meth:`give_up` when :attr:`spent`), and what interrupts
        the sleep.
        """
        self._began_ns, self.waiting_for = self._clock.now_ns(), why
        self.gave_up = None
        self.holds += 1
        self._voice.warning(f"training on hold: {why}")
        try:
            self._sleep_while(look)
        finally:
            held_s = self._current_s(self._began_ns)
            self._earlier_s += held_s
            self._began_ns = self.waiting_for = None
            self._voice.warning(
                f"held {held_s:.1f} s: {why}"
            )  # whoever read the start reads the end

    def _sleep_while(self, look: Callable[[], str | None]) -> None:
        remind_s = REMIND_S
        while True:
            self._clock.sleep(SLICE_S)
            self.feed()
            why = look()
            if why is None:
                return
            self.waiting_for = why
            held_s = self._current_s(self._began_ns)
            if held_s >= remind_s:
                remind_s = held_s + REMIND_S
                self._voice.warning(f"still on hold after {held_s:.1f} s: {why}")

    def _current_s(self, began_ns: int | None) -> float:
        return 0.0 if began_ns is None else (self._clock.now_ns() - began_ns) / 1e9

    def feed(self) -> None:
        """Call :attr:`on_wait`, which keeps watchdogs quiet."""
        if self.on_wait is None:
            return
        try:
            self.on_wait()
        except Exception as error:  # noqa: BLE001 - the user's, and no reason to end a hold
            if not self._hook_failed:
                self._hook_failed = True
                self._voice.warning(f"on_wait raised, and is called on: {words(error)}")
