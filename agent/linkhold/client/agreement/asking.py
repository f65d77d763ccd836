"""What a rank asks the others for, and what it remembers of their answers. Pure.

A request counts as served once a checkpoint was *agreed*, on every rank: the loop of a rank may
not call ``checkpoint_due()`` at all (``if rank == 0 and hold.checkpoint_due(step)``), so nothing
here depends on such calls but the retry after a save that failed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.client import saves as saving
from linkhold.client.agreement.vector import Agreed, Reason, Wish, mark
from linkhold.client.decision import Guidance
from linkhold.model import CheckpointRequest, Network, PowerState, StopRequest

if TYPE_CHECKING:
    from linkhold.client.saves import Saves
    from linkhold.client.settings import Settings
    from linkhold.wire import StateView

REMEMBERED = 64
PROGRAM = "program"
"""The id of a stop that the program itself asks for."""
PREFIXES = {
    "power-low": Reason.LOW,
    "power": Reason.BATTERY,
    "spot": Reason.SPOT,
    "shutdown": Reason.SHUTDOWN,
    "maintenance": Reason.MAINTENANCE,
    "rebalance": Reason.REBALANCE,
    PROGRAM: Reason.PROGRAM,
}
"""How the ids of requests begin (linkhold.decide.policy); the first that fits counts."""
WORDS = {
    Reason.NONE: "nothing",
    Reason.OTHER: "the agent of another node asks for it",
    Reason.PROGRAM: "the program asks for it on another rank",
    Reason.SCHEDULE: "on schedule",
    Reason.RETRY: "a rank's save failed",
    Reason.NETWORK: "the network of another node is down",
    Reason.BATTERY: "another node is on battery",
    Reason.REBALANCE: "rebalance notice of another node",
    Reason.MAINTENANCE: "maintenance notice of another node",
    Reason.SHUTDOWN: "another node shuts down",
    Reason.SPOT: "spot notice of another node",
    Reason.LOW: "battery low on another node",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """What a rank remembers. ``offers`` counts agreed checkpoints, the same on all ranks.

    ``offered_ns`` is when the last was agreed (at the start: where counting begins), ``served``
    the marks of what they were for, ``retry_ns`` from when on a failed save is asked for again.
    ``asked`` are the marks of the wish that is under way, ``save_s`` the longest save of any rank.
    """

    offered_ns: int
    offers: int = 0
    save_s: float = 0.0
    served: tuple[int, ...] = ()
    retry_ns: int | None = None
    asked: tuple[int, ...] = ()


def wish(
    settings: Settings,
    memory: Memory,
    saves: Saves,
    guidance: Guidance,
    cause: Reason,
    now_ns: int,
    *,
    held: bool = False,
) -> tuple[Wish, Memory]:
    """Return what this rank asks for now: ``guidance`` is its own agent's, ``cause`` its hold's.

    ``held``: ranks are on hold, which no schedule interrupts.
    """
    stop = guidance.stop
    left_ns = None
    if stop is not None and stop.deadline_mono_ns is not None:
        left_ns = max(0, stop.deadline_mono_ns - now_ns)
    expected_s = saving.expected_s(saves)
    asks = _asks(settings, memory, saves, guidance, now_ns, held=held)
    free = saving.can_save(settings, guidance)
    first = asks[0] if asks and free else (0, Reason.NONE)
    made = Wish(
        hold=cause if guidance.hold is not None else Reason.NONE,
        checkpoint=first[0],
        checkpoint_reason=first[1],
        local_only=guidance.checkpoint is not None and guidance.checkpoint.local_only,
        blocked=not free,
        stop=0 if stop is None else mark(stop.id),
        stop_reason=Reason.NONE if stop is None else reason_of(stop.id),
        left_ms=None if left_ns is None else left_ns // 1_000_000,
        save_ms=0 if expected_s is None else int(expected_s * 1000),
    )
    return made, replace(memory, asked=tuple(ask[0] for ask in asks))


def _asks(
    settings: Settings,
    memory: Memory,
    saves: Saves,
    guidance: Guidance,
    now_ns: int,
    *,
    held: bool,
) -> list[tuple[int, Reason]]:
    """Return every cause for a checkpoint, the most urgent first."""
    found = []
    last_ns = max(memory.offered_ns, saves.at_ns)
    stop, request = guidance.stop, guidance.checkpoint
    if stop is not None:
        found.append((mark(f"stop {stop.id}"), reason_of(stop.id)))
    if request is not None:
        found.append(_request(memory, saves, request, now_ns - last_ns))
    if memory.retry_ns is not None and now_ns >= memory.retry_ns:
        found.append((_once_more(memory, "retry"), Reason.RETRY))
    every_s = settings.checkpoint_every_s
    if every_s is not None and not held and now_ns - last_ns >= every_s * 1e9:
        found.append((_once_more(memory, "schedule"), Reason.SCHEDULE))
    return [ask for ask in found if ask[0] not in memory.served]


def _request(
    memory: Memory, saves: Saves, request: CheckpointRequest, since_ns: int
) -> tuple[int, Reason]:
    """Return the mark of a request; a new one once its interval has passed since the last save."""
    identity, pause_s = mark(request.id), saving.interval_s(saves, request)
    if identity not in memory.served or pause_s is None:
        return identity, reason_of(request.id)
    if since_ns >= max(pause_s, memory.save_s) * 1e9:
        identity = _once_more(memory, request.id)
    return identity, reason_of(request.id)


def _once_more(memory: Memory, what: str) -> int:
    """Return the mark of something that is asked for repeatedly.

    All ranks have agreed on the same number of checkpoints, so theirs is the same mark.
    """
    return mark(f"{what} after {memory.offers}")


def heard(memory: Memory, agreed: Agreed, now_ns: int) -> Memory:
    """Remember an answer; :attr:`Memory.offers` has grown if it brings a checkpoint."""
    known = replace(memory, asked=(), save_s=agreed.save_ms / 1000)
    if not agreed.checkpoint or agreed.blocked:
        return known
    return replace(
        known,
        offers=memory.offers + 1,
        offered_ns=now_ns,
        served=(*memory.served, agreed.checkpoint, *memory.asked)[-REMEMBERED:],
        retry_ns=None,
    )


def guidance_of(agreed: Agreed, own: Guidance, pending: str | None, now_ns: int) -> Guidance:
    """Return what all ranks do now. Uploads are each rank's own matter.

    ``pending`` is why a checkpoint was agreed that is not made yet, None without one.
    """
    left_ns = None if agreed.left_ms is None else agreed.left_ms * 1_000_000
    stop = None
    if agreed.stop:
        stop = StopRequest(
            f"{agreed.stop:08x}",
            words(agreed.stop_reason, own.stop.reason if own.stop else None),
            None if left_ns is None else now_ns + left_ns,
        )
    local_only = agreed.local_only or not _fits(agreed)
    request = None
    if pending is not None or local_only:
        request = CheckpointRequest("agreed", pending or "little time left", local_only)
    return Guidance(
        present=own.present,
        hold=words(agreed.hold, own.hold) if agreed.hold else None,
        uploads=own.uploads,
        checkpoint=request,
        stop=stop,
    )


def _fits(agreed: Agreed) -> bool:
    left_s = None if agreed.left_ms is None else agreed.left_ms / 1000
    return saving.fits(agreed.save_ms / 1000, left_s)


def cause_of(view: StateView | None) -> Reason:
    """Return why training is on hold by a node's state."""
    if view is None:
        return Reason.OTHER
    if view.network is Network.DOWN or "network" in view.advice.holds:
        return Reason.NETWORK
    return {PowerState.BATTERY: Reason.BATTERY, PowerState.LOW: Reason.LOW}.get(
        view.power, Reason.OTHER
    )


def why_checkpoint(reason: Reason, own: Guidance) -> str:
    """Say why a checkpoint was agreed, as this node's own agent says it if it asks for one."""
    request = own.stop or own.checkpoint
    if request is None or reason in {Reason.SCHEDULE, Reason.RETRY}:
        return WORDS[reason]
    return request.reason


def reason_of(identity: str) -> Reason:
    """Return what kind of request an id of the agent's stands for."""
    for prefix, reason in PREFIXES.items():
        if identity.startswith(prefix):
            return reason
    return Reason.OTHER


def words(reason: Reason, own: str | None) -> str:
    """Say why: as this node's own agent says it, else in general."""
    return own or WORDS[reason]
