"""When a checkpoint is due, and what is remembered of those that were made: pure.

Steps and seconds come in as arguments, so that every rank that remembers the same answers the
same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.model import Uploads
from linkhold.model.promises import FIT_SAVES

if TYPE_CHECKING:
    from linkhold.client.decision import Guidance
    from linkhold.client.settings import Settings
    from linkhold.model import CheckpointRequest

REMEMBERED_REQUESTS = 16
RETRY_FIRST_S = 10.0
RETRY_MOST_S = 120.0
WEIGHT_OF_NEWEST = 0.3
"""Share of the newest save in the moving mean of save times."""


@dataclass(frozen=True, slots=True)
class Saves:
    """What is remembered of checkpoints.

    ``step`` and ``at_ns`` are the last good save's (at the start: where counting begins).
    ``served`` holds the requests that a good save answered. After a failed save nothing is due
    before ``not_before_ns``. ``mean_s`` and ``last_s`` are save times in seconds.
    """

    at_ns: int
    step: int | None = None
    served: tuple[str, ...] = ()
    not_before_ns: int = 0
    failures: int = 0
    mean_s: float | None = None
    last_s: float | None = None


def requests(guidance: Guidance) -> tuple[str, ...]:
    """Name the requests that a save which begins now would answer."""
    names = []
    if guidance.stop is not None:
        names.append(f"stop {guidance.stop.id}")
    if guidance.checkpoint is not None:
        names.append(f"checkpoint {guidance.checkpoint.id}")
    return tuple(names)


def expected_s(saves: Saves) -> float | None:
    """Return what the next save may take, in seconds: the longer of the last and the mean."""
    if saves.last_s is None or saves.mean_s is None:
        return None
    return max(saves.last_s, saves.mean_s)


def fits(save_s: float | None, left_s: float | None) -> bool:
    """Tell whether a save and its upload fit into what is left; yes while one is not known."""
    return save_s is None or left_s is None or save_s * FIT_SAVES <= left_s


def interval_s(saves: Saves, request: CheckpointRequest) -> float | None:
    """Return the pause between saves that a request asks for, None when it asks for one only.

    At least as long as a save takes: half of the time on battery belongs to training.
    """
    if request.every_s is None:
        return None
    return max(request.every_s, expected_s(saves) or 0.0)


def can_save(settings: Settings, guidance: Guidance) -> bool:
    """Tell whether a checkpoint has somewhere to go; no when it goes over a held network."""
    return settings.checkpoint_to == "local" or guidance.uploads is not Uploads.HOLD


def urgent(saves: Saves, guidance: Guidance, now_ns: int) -> str | None:
    """Return why the agent wants a checkpoint now, None when it wants none."""
    stop, request = guidance.stop, guidance.checkpoint
    if stop is not None and f"stop {stop.id}" not in saves.served:
        return f"before the stop: {stop.reason}"
    if request is not None and _stands(saves, request, now_ns):
        return request.reason
    return None


def due(settings: Settings, saves: Saves, guidance: Guidance, step: int, now_ns: int) -> str | None:
    """Return why a checkpoint is due at ``step``, None when none is."""
    if now_ns < saves.not_before_ns or not can_save(settings, guidance):
        return None
    return urgent(saves, guidance, now_ns) or _periodic(settings, saves, step, now_ns)


def at_step(saves: Saves, step: int) -> Saves:
    """Begin to count at the first step seen, and again when steps start over."""
    if saves.step is None or step < saves.step:
        return replace(saves, step=step)
    return saves


def succeeded(
    saves: Saves, answered: tuple[str, ...], step: int, now_ns: int, took_s: float | None = None
) -> Saves:
    """Remember a good save that ended now; ``answered`` are the requests known at its start."""
    fresh = tuple(name for name in answered if name not in saves.served)
    done = replace(
        saves,
        at_ns=now_ns,
        step=step,
        served=(saves.served + fresh)[-REMEMBERED_REQUESTS:],
        not_before_ns=0,
        failures=0,
    )
    if took_s is None:
        return done
    before = took_s if saves.mean_s is None else saves.mean_s
    mean_s = before + WEIGHT_OF_NEWEST * (took_s - before)
    return replace(done, last_s=took_s, mean_s=mean_s)


def failed(saves: Saves, now_ns: int) -> Saves:
    """Remember a failed save: due again, but not at every step."""
    wait_s = min(RETRY_MOST_S, RETRY_FIRST_S * 2 ** min(saves.failures, 10))
    return replace(saves, failures=saves.failures + 1, not_before_ns=now_ns + int(wait_s * 1e9))


def _stands(saves: Saves, request: CheckpointRequest, now_ns: int) -> bool:
    if f"checkpoint {request.id}" not in saves.served:
        return True
    pause_s = interval_s(saves, request)
    return pause_s is not None and now_ns - saves.at_ns >= pause_s * 1e9


def _periodic(settings: Settings, saves: Saves, step: int, now_ns: int) -> str | None:
    every = settings.checkpoint_every_steps
    if every is not None and saves.step is not None and step // every > saves.step // every:
        return f"every {every} steps"
    every_s = settings.checkpoint_every_s
    if every_s is not None and now_ns - saves.at_ns >= every_s * 1e9:
        return f"every {every_s:g} s"
    return None
