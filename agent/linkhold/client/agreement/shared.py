"""The checkpoints of a Hold whose rank agrees with others.

The answer at a step depends on the step and on what was agreed, on nothing that only one rank
knows: every rank that asks at a step gets the same one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.client.agreement import asking
from linkhold.client.checkpoints import Checkpoints, suppressed

if TYPE_CHECKING:
    from linkhold.client.agreement.vector import Agreed, Reason, Wish
    from linkhold.client.decision import Guidance
    from linkhold.client.settings import Settings
    from linkhold.client.voice import Voice


class SharedCheckpoints(Checkpoints):
    """Answers whether a checkpoint is due, as all ranks agreed; remembers this rank's saves."""

    def __init__(self, settings: Settings, voice: Voice, now_ns: int) -> None:
        super().__init__(settings, voice, now_ns)
        self.pending: str | None = None
        """Why a checkpoint was agreed that was not asked for yet in this loop."""
        self._memory = asking.Memory(offered_ns=now_ns)
        self._blocked = False
        self._yes_at: int | None = None
        self._last: int | None = None

    def wish(self, guidance: Guidance, cause: Reason, now_ns: int, *, held: bool) -> Wish:
        """Return what this rank asks for; ``guidance`` is its own agent's."""
        made, self._memory = asking.wish(
            self._settings, self._memory, self.saves, guidance, cause, now_ns, held=held
        )
        return made

    def heard(self, agreed: Agreed, own: Guidance, now_ns: int) -> None:
        """Take in what was agreed."""
        before, waiting = self._memory.offers, self._memory.asked
        self._memory = asking.heard(self._memory, agreed, now_ns)
        self._blocked = agreed.blocked
        reason = asking.why_checkpoint(agreed.checkpoint_reason, own)
        if self._memory.offers != before:
            self.pending = reason
        elif agreed.blocked and (agreed.checkpoint or waiting):
            self._tell_suppressed(waiting or (agreed.checkpoint,), reason)

    def due(self, step: int, guidance: Guidance, now_ns: int) -> bool:
        """Tell whether to save at ``step``; asked twice at one step it answers the same."""
        del guidance, now_ns
        self._asked_step = step
        if self._yes_at == step:
            return True
        if self._last is None or step < self._last:
            self._last = step
        if self.pending is None and not self._scheduled(step):
            return False
        if self.pending is not None:
            self._voice.info(f"checkpoint at step {step}: {self.pending}")
        self._yes_at = self._last = step
        self.pending = None
        return True

    def may_save(self, guidance: Guidance) -> bool:
        """Tell whether every rank's checkpoint has somewhere to go, as was agreed."""
        del guidance
        return not self._blocked

    def begin(self, guidance: Guidance) -> tuple[str, ...]:
        """Begin a save, which answers whatever was agreed so far."""
        self._yes_at = self.pending = None
        return super().begin(guidance)

    def fail(self, now_ns: int) -> None:
        """Remember that the save failed here: all ranks are asked to save again, after a pause."""
        super().fail(now_ns)
        self._memory = replace(self._memory, retry_ns=self.saves.not_before_ns)

    def _scheduled(self, step: int) -> bool:
        every, last = self._settings.checkpoint_every_steps, self._last
        if every is None or last is None or self._blocked:
            return False
        return step // every > last // every

    def _tell_suppressed(self, marks: tuple[int, ...], reason: str) -> None:
        names = tuple(map(str, marks))
        if names != self._told_of:
            self._told_of = names
            self._voice.warning(suppressed(reason))
