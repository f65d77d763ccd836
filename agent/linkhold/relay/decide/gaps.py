"""Which events of a node are missing, when they are asked for, and when they are given up.

A session of an agent numbers its events from 1 without holes. What comes from two brokers may
come out of order, so a hole must stay open for a moment before it counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_SESSIONS = 4
MOST_HOLES = 16
MOST_EVENTS = 1000
"""Of one request; a node serves no more at once."""
WAIT_NS = 3 * 10**9
ANSWER_NS = 60 * 10**9
MOST_TRIES = 3


@dataclass(frozen=True, slots=True)
class Hole:
    """The events ``first`` to ``last`` did not come; ``due_ns`` is when to ask for them.

    ``request`` asked for those up to ``asked_to``.
    """

    first: int
    last: int
    due_ns: int
    tries: int = 0
    request: str = ""
    asked_to: int = 0

    @property
    def size(self) -> int:
        """How many events are missing."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Track:
    """What came of one session: everything up to ``seen``, except what the holes hold."""

    session: str
    seen: int
    holes: tuple[Hole, ...] = ()


Tracks = tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class Wish:
    """Events that are to be asked for."""

    session: str
    request: str
    first: int
    last: int


def begin(tracks: Tracks, session: str, previous: str, previous_seq: int, now_ns: int) -> Tracks:
    """Take in that a session began after another one, which ended with ``previous_seq``.

    Where the one before was followed, both are followed from end to end; else the new one counts
    from the first event that comes: what a relay never knew of, it does not miss.
    """
    before = _find(tracks, previous)
    if before is None or _find(tracks, session) is not None:
        return tracks
    ended = before
    if previous_seq > before.seen:
        ended = _with_hole(before, before.seen + 1, previous_seq, now_ns + WAIT_NS)
    kept = tuple(ended if track is before else track for track in tracks)
    return (*kept, Track(session, 0))[-MOST_SESSIONS:]


def arrived(tracks: Tracks, session: str, seq: int, now_ns: int) -> tuple[Tracks, bool]:
    """Take one event in; return the tracks and whether it is news (False: it came before)."""
    track = _find(tracks, session)
    if track is None:
        return (*tracks, Track(session, seq))[-MOST_SESSIONS:], True
    if seq > track.seen:
        after = track
        if seq > track.seen + 1:
            after = _with_hole(track, track.seen + 1, seq - 1, now_ns + WAIT_NS)
        after = replace(after, seen=seq)
    else:
        hole = next((one for one in track.holes if one.first <= seq <= one.last), None)
        if hole is None:
            return tracks, False
        after = replace(track, holes=tuple(_without(track.holes, hole, seq)))
    return tuple(after if one is track else one for one in tracks), True


def ask(tracks: Tracks, by: str, now_ns: int) -> tuple[Tracks, Wish | None, int]:
    """Return the tracks, what to ask for now, and how many events are given up.

    One request is under way at a time: a node serves one after the other anyway.
    """
    lost = 0
    for track in tracks:
        for hole in track.holes:
            if now_ns < hole.due_ns:
                if hole.request:
                    return tracks, None, lost
                continue
            if hole.tries >= MOST_TRIES:
                tracks, lost = _drop(tracks, track.session, hole), lost + hole.size
                continue
            last = min(hole.last, hole.first + MOST_EVENTS - 1)
            request = f"{by[:12]}-{track.session[:12]}-{hole.first}-{last}-{hole.tries}"
            asked = replace(
                hole,
                tries=hole.tries + 1,
                request=request,
                asked_to=last,
                due_ns=now_ns + ANSWER_NS,
            )
            return (
                _swap(tracks, track.session, hole, asked),
                Wish(track.session, request, hole.first, last),
                lost,
            )
    return tracks, None, lost


def answered(tracks: Tracks, request: str, now_ns: int) -> tuple[Tracks, int]:
    """Take in that a node served a request: what is still missing of it cannot be had."""
    lost, after = 0, []
    for track in tracks:
        holes = []
        for hole in track.holes:
            if hole.request != request:
                holes.append(hole)
                continue
            lost += min(hole.last, hole.asked_to) - hole.first + 1
            if hole.last > hole.asked_to:
                holes.append(Hole(hole.asked_to + 1, hole.last, now_ns))
        after.append(replace(track, holes=tuple(holes)))
    return tuple(after), lost


def due_ns(tracks: Tracks) -> int | None:
    """Return when :func:`ask` has something to do, None without holes."""
    return min((hole.due_ns for track in tracks for hole in track.holes), default=None)


def stored(tracks: Tracks) -> dict[str, int]:
    """Return how far each session is known without a hole, to be read by the next relay."""
    return {
        track.session: min((hole.first - 1 for hole in track.holes), default=track.seen)
        for track in tracks
    }


def read_stored(value: Mapping[str, int]) -> Tracks:
    """Return the tracks that :func:`stored` tells of."""
    return tuple(Track(session, seen) for session, seen in value.items())[-MOST_SESSIONS:]


def _find(tracks: Tracks, session: str) -> Track | None:
    return next((track for track in tracks if track.session == session), None)


def _with_hole(track: Track, first: int, last: int, due: int) -> Track:
    """Return the track with one more hole; where there are too many, the last two become one."""
    holes = track.holes
    if len(holes) >= MOST_HOLES:
        first, holes = holes[-1].first, holes[:-1]
    return replace(track, seen=last, holes=(*holes, Hole(first, last, due)))


def _without(holes: tuple[Hole, ...], hole: Hole, seq: int) -> Iterable[Hole]:
    for one in holes:
        if one is not hole:
            yield one
            continue
        if hole.first < seq:
            yield replace(hole, last=seq - 1)
        if seq < hole.last:
            yield replace(hole, first=seq + 1)


def _swap(tracks: Tracks, session: str, hole: Hole, by: Hole) -> Tracks:
    return tuple(
        replace(track, holes=tuple(by if one is hole else one for one in track.holes))
        if track.session == session
        else track
        for track in tracks
    )


def _drop(tracks: Tracks, session: str, hole: Hole) -> Tracks:
    return tuple(
        replace(track, holes=tuple(one for one in track.holes if one is not hole))
        if track.session == session
        else track
        for track in tracks
    )
