"""How often one upload is tried, and how long it rests in between."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from linkhold.client.upload_handle import Elsewhere, asked_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.upload_handle import Upload

MAX_TRIES = 20
MAX_TRYING_S = 6 * 3600.0
"""Longest time of attempts in a row; time on hold does not count."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0

_dice = random.SystemRandom()
"""Own dice: the global generator belongs to the training run, and all ranks seed it alike."""


def tries(
    upload: Upload,
    rest: Callable[[Upload, float], None],
    report: Callable[[Upload, BaseException, float], None],
) -> Any:
    """Return tenacity's loop: full jitter, bounded in tries and time, no retry when pointless.

    ``rest`` waits for so many seconds and may raise; ``report`` hears of each failure before.
    """
    import tenacity as t  # noqa: PLC0415 - see add()

    in_vain = t.stop_after_delay(MAX_TRYING_S)
    widening = t.wait_exponential(multiplier=FIRST_PAUSE_S, max=LONGEST_PAUSE_S)

    def before_sleep(state: t.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if error is not None and state.next_action is not None:
            report(upload, error, state.next_action.sleep)

    return t.Retrying(
        stop=lambda state: upload.attempts >= MAX_TRIES or in_vain(state),
        wait=lambda state: max(_dice.uniform(0, widening(state)), _asked_s(state)),
        retry=t.retry_if_exception(
            lambda error: isinstance(error, Elsewhere) or upload.retryable(error)
        ),
        sleep=lambda pause_s: rest(upload, pause_s),
        before_sleep=before_sleep,
        reraise=True,
    )


def _asked_s(state: Any) -> float:
    error = state.outcome.exception()
    return 0.0 if error is None else asked_s(error)
