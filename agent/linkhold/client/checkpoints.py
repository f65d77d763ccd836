"""The checkpoints of one Hold: holds what :mod:`linkhold.client.saves` decides about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.client import saves

if TYPE_CHECKING:
    from linkhold.client.decision import Guidance
    from linkhold.client.settings import Settings
    from linkhold.client.voice import Voice


class Checkpoints:
    """Answers whether a checkpoint is due, and remembers how saves went."""

    def __init__(self, settings: Settings, voice: Voice, now_ns: int) -> None:
        self.saves = saves.Saves(at_ns=now_ns)
        self._settings = settings
        self._voice = voice
        self._offer: tuple[int, tuple[str, ...], int] | None = None
        self._let_pass: object = None
        self._told_of: tuple[str, ...] = ()
        self._asked_step = 0

    def due(self, step: int, guidance: Guidance, now_ns: int) -> bool:
        """Tell whether to save at ``step``; asked twice at one step it answers the same."""
        self._asked_step = step
        if self._offer is not None:
            if self._offer[0] == step:
                return True
            self._take_for_saved(*self._offer)
        self.saves = saves.at_step(self.saves, step)
        reason = saves.due(self._settings, self.saves, guidance, step, now_ns)
        if reason is None:
            self._tell_if_suppressed(guidance, now_ns)
            return False
        self._offer = (step, saves.requests(guidance), now_ns)
        if saves.urgent(self.saves, guidance, now_ns):
            self._voice.info(f"checkpoint at step {step}: {reason}")
        return True

    def may_save(self, guidance: Guidance) -> bool:
        """Tell whether a checkpoint has somewhere to go."""
        return saves.can_save(self._settings, guidance)

    def begin(self, guidance: Guidance) -> tuple[str, ...]:
        """Begin a save; return the requests that it will answer."""
        self._offer = None
        return saves.requests(guidance)

    def fail(self, now_ns: int) -> None:
        """Remember that the save failed."""
        self.saves = saves.failed(self.saves, now_ns)

    def finish(self, answered: tuple[str, ...], began_ns: int, now_ns: int) -> None:
        """Remember that the save succeeded, and how long it took."""
        took_s = (now_ns - began_ns) / 1e9
        self.saves = saves.succeeded(self.saves, answered, self._asked_step, now_ns, took_s)

    def goes_first(self, guidance: Guidance, now_ns: int) -> bool:
        """Tell whether training on hold passes one step, to save what the agent asks for.

        Once for each time that it is asked: the loop may not use ``checkpoint_due()`` at all.
        """
        kept = self.saves
        self._tell_if_suppressed(guidance, now_ns)
        occasion = (saves.requests(guidance), kept.at_ns, kept.failures)
        if occasion == self._let_pass or now_ns < kept.not_before_ns:
            return False
        if not saves.urgent(kept, guidance, now_ns) or not saves.can_save(self._settings, guidance):
            return False
        self._let_pass = occasion
        return True

    def _tell_if_suppressed(self, guidance: Guidance, now_ns: int) -> None:
        """Say once for each request that it is not served while uploads are on hold."""
        reason = saves.urgent(self.saves, guidance, now_ns)
        asked = saves.requests(guidance)
        if reason is None or asked == self._told_of or saves.can_save(self._settings, guidance):
            return
        self._told_of = asked
        self._voice.warning(suppressed(reason))

    def _take_for_saved(self, step: int, answered: tuple[str, ...], at_ns: int) -> None:
        """Whoever never uses ``saving()`` has saved by the time the next step asks."""
        self.saves = saves.succeeded(self.saves, answered, step, at_ns)
        self._offer = None


def suppressed(reason: str) -> str:
    """Say that a checkpoint is asked for and cannot be made."""
    return (
        f"no checkpoint although one is asked for ({reason}): uploads are on hold, and with "
        'checkpoint_to="remote" saving needs the network'
    )
