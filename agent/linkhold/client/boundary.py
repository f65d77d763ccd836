"""What happens at a step boundary: the agent's word is taken in, and training waits if it must.

A rank on its own looks at its agent's newest state whenever that changes. A rank that agrees with
others does nothing between two agreements; at one it tells what its agent asks for, and does what
was agreed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.client import decision, kin, watchdogs
from linkhold.client.agreement import asking, torch_group
from linkhold.client.agreement.rounds import Rounds
from linkhold.client.agreement.shared import SharedCheckpoints
from linkhold.client.agreement.vector import LENGTH, Reason
from linkhold.client.agreement.waiting import Waiting
from linkhold.client.settings import step_number
from linkhold.client.voice import asked_to_stop, presence

if TYPE_CHECKING:
    from linkhold.client.agreement.vector import Agreed, Wish
    from linkhold.client.checkpoints import Checkpoints
    from linkhold.client.decision import Guidance
    from linkhold.client.listener import Source
    from linkhold.client.pause import Clock, Pause
    from linkhold.client.settings import Settings
    from linkhold.client.voice import Voice
    from linkhold.model import StopRequest
    from linkhold.wire import StateView

ALONE = 1 << 62
"""Steps to the next agreement where there is none: counted down, it never becomes 0."""
MARGIN_S = 60.0
MARGIN_SHARE = 0.2
"""A hold ends this much before the group's timeout: so many seconds, or this share if shorter."""


@dataclass(frozen=True, slots=True)
class Together:
    """What a rank has that agrees with others."""

    rounds: Rounds
    checkpoints: SharedCheckpoints
    waiting: Waiting


class Boundary:
    """The inside of :meth:`linkhold.client.Hold.step`; the Hold sets the fields."""

    _settings: Settings
    _source: Source
    _clock: Clock
    _voice: Voice
    _guidance: Guidance
    _view: StateView | None
    _checkpoints: Checkpoints
    _pause: Pause
    _together: Together | None
    _step: int
    _ahead: int
    _attention: bool
    _closed: bool
    _greeted: bool
    _joined: bool
    _ever_holds: bool
    _dissolved: bool
    _own: Guidance
    _asked: StopRequest | None

    def _listen(self) -> None:
        raise NotImplementedError

    def _attend(self) -> None:
        """Do what is due at this boundary; see :meth:`Hold.step` for what it raises."""
        self._step = step_number("step", self._step)
        self._listen()
        self._attention = False  # before looking, so that a change meanwhile is seen
        if not self._joined:
            self._join()
        if self._together is None:
            if not self._dissolved:
                self._attend_alone()
        elif self._ahead <= 0:
            self._attend_together(self._together)

    # On its own.

    def _attend_alone(self) -> None:
        self._apply()
        try:
            why = self._must_wait()
            if why is not None:
                watchdogs.drain_streams()
                self._pause.wait_out(why, self._look_again)
        finally:
            if self._guidance.hold is not None:
                self._attention = True

    def _look_again(self) -> str | None:
        self._apply()
        why = self._must_wait()
        if why is not None and self._pause.spent:
            raise self._pause.give_up()
        return why

    def _apply(self) -> None:
        """Make the newest state the one that counts, and say what it changes."""
        if self._together is not None:
            return  # at the next agreement
        now_ns = self._clock.now_ns()
        before, self._guidance = self._guidance, self._look(now_ns)
        self._announce(before, self._guidance, now_ns)

    def _must_wait(self) -> str | None:
        """Return why training is on hold; a stop or an unserved checkpoint goes first."""
        guidance = self._guidance
        if guidance.hold is None or guidance.stop is not None or not self._ever_holds:
            return None
        if self._checkpoints.goes_first(guidance, self._clock.now_ns()):
            return None
        return guidance.hold

    # With others.

    def _begin(self) -> None:
        """Take in the first state; where there are ranks by now, all of them come by here."""
        if torch_group.world_size() > 1:
            self._join()
        self._apply()
        if watchdogs.under_torchft():
            self._voice.info("torchft drops ranks that wait and goes on: nothing is held here")

    def _join(self) -> None:
        """Begin to agree, where ``agree`` asks for it; all ranks do so at the same place."""
        self._joined = True
        ranks = torch_group.world_size()
        if ranks == 1:
            return
        if self._settings.agree is None:
            self._ever_holds = False
            self._voice.warning(alone_among(ranks))
            return
        group = torch_group.TorchGroup(LENGTH)
        checkpoints = SharedCheckpoints(self._settings, self._voice, self._clock.now_ns())
        self._together = Together(
            Rounds(group, self._while_waiting), checkpoints, Waiting(self._voice)
        )
        self._checkpoints, self._ahead = checkpoints, 0
        self._limit_hold(group.timeout_s, tell=group.rank == 0)

    def _limit_hold(self, timeout_s: float, *, tell: bool) -> None:
        """End every hold before the ranks' timeout would, and say so if that shortens it."""
        longest_s = timeout_s - min(MARGIN_S, timeout_s * MARGIN_SHARE)
        if self._settings.max_hold_s <= longest_s:
            return
        self._pause.max_hold_s = longest_s
        if tell:
            self._voice.warning(
                f"a hold ends after {longest_s:g} s, not after max_hold_s = "
                f"{self._settings.max_hold_s:g} s: the process group gives up after {timeout_s:g} "
                "s; for longer holds pass a longer timeout= to init_process_group()"
            )

    def _attend_together(self, together: Together) -> None:
        why = self._agree(together)
        if why is not None:
            watchdogs.drain_streams()
            self._pause.wait_out(why, lambda: self._agree(together))

    def _agree(self, together: Together) -> str | None:
        """Agree once, and return why all ranks wait, None when they go on."""
        wish = replace(self._wish(together), step=self._step)
        try:
            agreed = together.rounds.meet(wish)
        except RuntimeError:
            self._voice.warning(unmet(self._step))
            raise
        together.waiting.over(agreed.apart)
        self._ahead = together.rounds.every
        self._take_in(together, agreed)
        if agreed.closing:
            self._dissolve()
            return None
        if agreed.give_up:
            raise self._pause.give_up()
        saves_first = agreed.checkpoint and not agreed.blocked
        return None if agreed.stop or saves_first else self._guidance.hold

    def _wish(self, together: Together) -> Wish:
        now_ns = self._clock.now_ns()
        before, self._own = self._own, self._look(now_ns)
        if not self._closed:
            self._announce(before, replace(self._own, stop=None), now_ns)
        cause = asking.cause_of(self._view) if self._ever_holds else Reason.NONE
        held = self._pause.waiting_for is not None
        wish = together.checkpoints.wish(self._own, cause, now_ns, held=held)
        return replace(wish, give_up=self._pause.spent)

    def _take_in(self, together: Together, agreed: Agreed) -> None:
        now_ns = self._clock.now_ns()
        together.checkpoints.heard(agreed, self._own, now_ns)
        before, pending = self._guidance, together.checkpoints.pending
        self._guidance = asking.guidance_of(agreed, self._own, pending, now_ns)
        stop = self._guidance.stop
        if stop is not None and before.stop is None:
            self._voice.warning(asked_to_stop(stop, now_ns))
        if stop is None and before.stop is not None:
            self._voice.info("asked to stop no more: training goes on")

    def _dissolve(self) -> None:
        """Go on without agreements, as one rank is done: what needs all ranks is over."""
        self._together, self._ahead, self._ever_holds = None, ALONE, False
        self._dissolved = True
        self._voice.info(
            "another rank has closed its Hold: from here on this one holds nothing and takes no "
            "new requests"
        )

    def _while_waiting(self) -> None:
        """Keep watchdogs fed while other ranks are waited for."""
        self._pause.feed()
        if self._together is not None:
            self._together.waiting.go_on(self._step, self._source.newest)

    # Both.

    def _look(self, now_ns: int) -> Guidance:
        self._view = self._source.newest
        found = decision.guide(self._settings, self._view, now_ns, kin.means_us)
        return replace(found, stop=self._asked) if found.stop is None and self._asked else found

    def _announce(self, before: Guidance, after: Guidance, now_ns: int) -> None:
        if self._greeted:
            changed = before.present is not after.present
        else:
            changed = self._greeted = after.present or self._source.looked
        if changed:
            text = presence(after, self._view, self._source.where())
            self._voice.presence(present=after.present, text=text, now_ns=now_ns)
        if after.stop is not None and (before.stop is None or before.stop.id != after.stop.id):
            self._voice.warning(asked_to_stop(after.stop, now_ns))


def alone_among(ranks: int) -> str:
    """Say that a Hold of a distributed job decides for its own rank, and what to do."""
    return (
        f"torch.distributed has {ranks} ranks here, and this Hold agrees with none of them: it "
        "holds nothing, and checkpoint or stop may come at another step than on other ranks; "
        'write Hold.connect(agree="torch") on every rank'
    )


def unmet(step: int) -> str:
    """Say what may have become of the others when an agreement failed, which torch tells next."""
    return (
        f"at step {step} the ranks could not agree: one has ended or hangs, or left out a "
        "hold.step(), which every rank must call for each of its steps"
    )
