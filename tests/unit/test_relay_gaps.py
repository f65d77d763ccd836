"""Which events of a node are missing, and when they are asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linkhold.relay.decide import gaps

S = 10**9
numbers = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def missing(tracks: gaps.Tracks, session: str) -> set[int]:
    """Return what the holes of a session hold."""
    return {
        number
        for track in tracks
        if track.session == session
        for hole in track.holes
        for number in range(hole.first, hole.last + 1)
    }


@given(numbers)
def test_exactly_what_did_not_come_is_missing(arrived: list[int]) -> None:
    """In any order and with repeats.

    From the first number on, missing is what never came, and each number is news once.
    """
    tracks: gaps.Tracks = ()
    news = []
    for number in arrived:
        tracks, fresh = gaps.arrived(tracks, "s", number, 0)
        if fresh:
            news.append(number)

    first, last = arrived[0], max(arrived)
    assert missing(tracks, "s") == set(range(first, last + 1)) - set(arrived)
    assert sorted(news) == sorted({number for number in arrived if number >= first})


@given(numbers, st.lists(st.booleans(), max_size=40))
def test_every_hole_is_filled_or_counted(arrived: list[int], had: list[bool]) -> None:
    """Whatever a node still has of what is asked for.

    In the end no hole is left and the rest is counted as lost.
    """
    tracks: gaps.Tracks = ()
    for number in arrived:
        tracks, _ = gaps.arrived(tracks, "s", number, 0)
    wanted, got, lost, now = missing(tracks, "s"), 0, 0, 0
    answers = iter([*had, *[False] * 40])
    for _ in range(200):
        now += 4 * S
        tracks, wish, given_up = gaps.ask(tracks, "r", now)
        lost += given_up
        if wish is None:
            continue
        for number in range(wish.first, wish.last + 1):
            if next(answers, False):
                tracks, fresh = gaps.arrived(tracks, "s", number, now)
                got += fresh
        tracks, gone = gaps.answered(tracks, wish.request, now)
        lost += gone

    assert missing(tracks, "s") == set()
    assert got + lost == len(wanted)


def test_a_hole_that_closes_by_itself_is_not_asked_for() -> None:
    """Events of two brokers come out of order.

    Only what is missing for 3 s is asked for, once a minute, and given up after three tries
    without an answer.
    """
    tracks, _ = gaps.arrived((), "s", 1, 0)
    tracks, _ = gaps.arrived(tracks, "s", 3, 0)
    assert gaps.ask(tracks, "r", 2 * S)[1] is None
    tracks, _ = gaps.arrived(tracks, "s", 2, 2 * S)
    assert gaps.ask(tracks, "r", 9 * S)[1] is None

    tracks, _ = gaps.arrived(tracks, "s", 5, 10 * S)
    asked, lost = [], 0
    for second in range(10, 300):
        tracks, wish, gone = gaps.ask(tracks, "r", second * S)
        lost += gone
        if wish is not None:
            asked.append((second, wish.first, wish.last))
    assert asked == [(13, 4, 4), (73, 4, 4), (133, 4, 4)]
    assert lost == 1


def test_the_end_of_a_session_is_missed_too() -> None:
    """A new session tells how far the one before went: what did not come of it is asked for."""
    tracks, _ = gaps.arrived((), "old", 7, 0)
    tracks = gaps.begin(tracks, "new", "old", 9, 0)
    tracks, _ = gaps.arrived(tracks, "new", 2, 0)

    assert missing(tracks, "old") == {8, 9}
    assert missing(tracks, "new") == {1}


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=300))
def test_nothing_grows_without_bound(arrived: list[int]) -> None:
    """However torn a history is, its holes are few, and stored it says what is known for sure."""
    tracks: gaps.Tracks = ()
    for number in arrived:
        tracks, _ = gaps.arrived(tracks, str(number % 7), number, 0)

    assert len(tracks) <= gaps.MOST_SESSIONS
    assert all(len(track.holes) <= gaps.MOST_HOLES + 1 for track in tracks)
    again = {track.session: track.seen for track in gaps.read_stored(gaps.stored(tracks))}
    assert all(again[track.session] <= track.seen for track in tracks)
