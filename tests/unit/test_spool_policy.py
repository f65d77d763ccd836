"""What the spool keeps and gives up, as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.spool.policy import Kept, Limits, Plan, plan

SIZES = st.integers(0, 100)
LIMITS = st.builds(Limits, st.integers(1, 300), st.integers(1, 6), st.integers(0, 100))
ENTRIES = st.lists(st.tuples(SIZES, st.booleans()), max_size=8).map(
    lambda found: [Kept(str(n), size, loose) for n, (size, loose) in enumerate(found)]
)
FREE = st.integers(0, 400)


def fits(limits: Limits, kept: list[Kept], incoming: int, free: int) -> bool:
    """Say in one line each what the three limits mean."""
    return (
        len(kept) + 1 <= limits.max_count
        and sum(entry.size_bytes for entry in kept) + incoming <= limits.max_bytes
        and free - incoming >= limits.free_floor_bytes
    )


def left_of(kept: list[Kept], decided: Plan) -> list[Kept]:
    """Return what stays."""
    return [entry for entry in kept if entry.id not in decided.give_up]


def freed(kept: list[Kept], decided: Plan) -> int:
    """Return how many bytes go."""
    return sum(entry.size_bytes for entry in kept if entry.id in decided.give_up)


@given(LIMITS, ENTRIES, SIZES, FREE)
def test_limits_hold(limits: Limits, kept: list[Kept], incoming: int, free: int) -> None:
    """Whatever is admitted, count, bytes and free space are within the limits afterwards."""
    decided = plan(limits, kept, incoming, free)

    if decided.admit:
        assert fits(limits, left_of(kept, decided), incoming, free + freed(kept, decided))


@given(LIMITS, ENTRIES, SIZES, FREE)
def test_nothing_goes_in_vain(limits: Limits, kept: list[Kept], incoming: int, free: int) -> None:
    """A refusal costs nobody anything, what fits costs nothing, and it says why it refuses."""
    decided = plan(limits, kept, incoming, free)

    assert decided.admit == (decided.why == "")
    if not decided.admit or fits(limits, kept, incoming, free):
        assert decided.give_up == ()


@given(LIMITS, ENTRIES, SIZES, FREE)
def test_the_oldest_go_and_no_more(
    limits: Limits, kept: list[Kept], incoming: int, free: int
) -> None:
    """Only loose entries go, the oldest first, and one less would not have been enough."""
    decided = plan(limits, kept, incoming, free)
    loose = [entry.id for entry in kept if entry.loose]

    assert decided.give_up == tuple(loose[: len(decided.give_up)])
    if decided.give_up:
        fewer = Plan(admit=True, give_up=decided.give_up[:-1])
        assert not fits(limits, left_of(kept, fewer), incoming, free + freed(kept, fewer))


@given(LIMITS, ENTRIES, SIZES, FREE)
def test_refused_only_when_nothing_helps(
    limits: Limits, kept: list[Kept], incoming: int, free: int
) -> None:
    """It is refused only if it would not fit with everything given up that may go."""
    decided = plan(limits, kept, incoming, free)

    if not decided.admit:
        everything = Plan(admit=True, give_up=tuple(e.id for e in kept if e.loose))
        room = free + freed(kept, everything)
        assert not fits(limits, left_of(kept, everything), incoming, room)
