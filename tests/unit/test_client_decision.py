"""What states mean for a training process, with a simulated clock."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.states import BOOT_ID, view
from linkhold.client import decision
from linkhold.client.decision import NOBODY, Guidance, Seen
from linkhold.client.settings import Settings
from linkhold.model import StopRequest, Uploads

if TYPE_CHECKING:
    from linkhold.wire import StateView

S = 1_000_000_000
NOW = 1000 * S
JOB = Settings(hold_on=("network",))
BAD: dict[str, Any] = {
    "uploads": "hold",
    "training": "hold",
    "checkpoint": {"id": "c", "reason": "on battery"},
    "stop": {"id": "s", "reason": "low", "deadline_mono_ns": NOW + 3600 * S},
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Seen.NEWER),
        ({"boot_id": "other"}, Seen.FOREIGN),
        ({"boot_id": BOOT_ID.upper().replace("-", "")}, Seen.NEWER),
        ({"mono_ns": NOW + S}, Seen.NEWER),
        ({"mono_ns": NOW + 2 * S}, Seen.FUTURE),
        ({"session_ns": NOW + 1}, Seen.FUTURE),
        ({"mono_ns": NOW - 15 * S}, Seen.NEWER),
        ({"mono_ns": NOW - 16 * S}, Seen.STALE),
        ({"mono_ns": NOW - 16 * S, "checkpoint": BAD["checkpoint"]}, Seen.STALE),
        ({"mono_ns": NOW - 16 * S, "stop": BAD["stop"]}, Seen.NEWER),
        ({"mono_ns": NOW - 16 * S, "stop": {"id": "s", "reason": "r"}}, Seen.STALE),
    ],
)
def test_first_state(fields: dict[str, Any], expected: Seen) -> None:
    """Only a fresh state of this boot is believed; an old one for a stop still ahead alone."""
    assert expected is decision.sift(None, view(**{"mono_ns": NOW, **fields}), BOOT_ID, NOW)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("size", [10**400, -(10**400), 2**63, 0])
@pytest.mark.parametrize("name", ["mono_ns", "session_mono_ns", "epoch", "deadline"])
def test_numbers_of_any_size(name: str, size: int, *, known: bool) -> None:
    """No number in a state is too large to be judged and followed."""
    plain = view(mono_ns=NOW, **BAD)
    stop = StopRequest("s", "low", size if name == "deadline" else NOW + S)
    odd = replace(plain, advice=replace(plain.advice, stop=stop))
    changes: dict[str, Any] = {} if name == "deadline" else {name: size}
    odd = replace(odd, **changes)

    decision.sift(plain if known else None, odd, BOOT_ID, NOW)
    decision.sift(odd, plain, BOOT_ID, NOW)
    guidance = decision.guide(JOB, odd, NOW)
    left_s = decision.seconds_left(guidance.stop, NOW)
    assert left_s is None or 0 <= left_s <= decision.FAR_S


def test_unknown_boot_believes_nothing() -> None:
    """Without this kernel's boot id no state can be dated."""
    assert Seen.FOREIGN is decision.sift(None, view(mono_ns=NOW, boot_id=""), "", NOW)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"epoch": 5, "mono_ns": NOW - S}, Seen.SAME),
        ({"epoch": 5, "mono_ns": NOW}, Seen.NEWER),
        ({"epoch": 4, "mono_ns": NOW}, Seen.OLDER),
        ({"epoch": 6, "mono_ns": NOW - 2 * S}, Seen.NEWER),
        ({"epoch": 1, "session": "two", "session_ns": NOW - 5 * S, "mono_ns": NOW}, Seen.NEWER),
        ({"epoch": 9, "session": "zero", "session_ns": 0, "mono_ns": NOW}, Seen.OLDER),
    ],
)
def test_newest_wins(fields: dict[str, Any], expected: Seen) -> None:
    """Session start, then epoch, then heartbeat decide which of two states is newer."""
    known = view(epoch=5, mono_ns=NOW - S)

    assert expected is decision.sift(known, view(**fields), BOOT_ID, NOW)


def test_hold_on() -> None:
    """A cause holds training only in jobs that asked for it."""
    state = view(mono_ns=NOW, network="down", holds=["network"], cause=("eth0 lost carrier",))

    assert decision.guide(JOB, state, NOW).hold == "network down (eth0 lost carrier)"
    assert decision.guide(Settings(), state, NOW).hold is None


def test_words() -> None:
    """The reason names the fault, its local time and at most three causes."""
    text = decision.why(
        view(network="down", since="2026-11-29T03:12:04.000Z", cause=("a", "b", "c", "d"))
    )

    assert text.startswith("network down since ")
    assert text.endswith(":04 (a; b; c)")
    assert decision.why(view(network="down", since="rubbish")) == "network down"
    assert decision.why(view(power="battery")) == "power on battery"
    assert decision.why(view(holds=["network"])) == "network back, waiting for it to stay"
    assert decision.why(view()) == "the agent asks for it"
    assert decision.why(view(cause=("s3 unreachable",))) == "the agent asks for it (s3 unreachable)"


def test_silence_keeps_checkpoint_and_stop_alone() -> None:
    """A stale state holds nothing; its stop ends with the deadline, its checkpoint never."""
    state = view(mono_ns=NOW, **BAD)
    late = decision.guide(JOB, state, NOW + 16 * S)
    later = decision.guide(JOB, state, NOW + 3600 * S)

    assert Guidance(checkpoint=state.advice.checkpoint, stop=state.advice.stop) == late
    assert Guidance(checkpoint=state.advice.checkpoint) == later
    assert decision.guide(JOB, view(mono_ns=NOW + 3600 * S, **BAD), NOW + 3600 * S).stop
    assert decision.guide(JOB, None, NOW) == NOBODY


def test_seconds_left() -> None:
    """The time left is never negative, and None without a deadline."""
    stop = view(mono_ns=NOW, **BAD).advice.stop

    assert decision.seconds_left(stop, NOW) == 3600.0
    assert decision.seconds_left(stop, NOW + 4000 * S) == 0.0
    assert decision.seconds_left(None, NOW) is None


class Follower:
    """Listens as the real one does, in simulated time."""

    def __init__(self) -> None:
        self.now_ns = NOW
        self.newest: StateView | None = None

    def hear(self, state: StateView) -> None:
        if decision.sift(self.newest, state, BOOT_ID, self.now_ns) is Seen.NEWER:
            self.newest = state

    def guidance(self) -> Guidance:
        return decision.guide(JOB, self.newest, self.now_ns)


poison = st.fixed_dictionaries(
    {
        "epoch": st.integers(-5, 10**12),
        "session_ns": st.integers(0, NOW + 60 * S),
        "mono_ns": st.integers(NOW - 60 * S, NOW + 90 * S),
        "boot_id": st.sampled_from([BOOT_ID, BOOT_ID, "other"]),
        "training": st.sampled_from(["go", "hold"]),
        "uploads": st.sampled_from(["go", "hold", "newest"]),
        "checkpoint": st.sampled_from([None, BAD["checkpoint"]]),
        "stop": st.sampled_from([None, BAD["stop"]]),
    }
)
steps = st.lists(st.tuples(poison, st.floats(0, 10)), max_size=25)


def _walk(follower: Follower, said: list[tuple[dict[str, Any], float]]) -> None:
    for fields, pause_s in said:
        follower.hear(view(**fields))
        follower.now_ns += int(pause_s * S)


@given(steps)
def test_nothing_leaves_a_run_on_hold(said: list[tuple[dict[str, Any], float]]) -> None:
    """Whatever came before, a living agent that says go is believed within 20 s."""
    follower = Follower()
    _walk(follower, said)
    first_ns = follower.now_ns
    for beat in range(5):
        follower.now_ns = max(first_ns + beat * 5 * S, follower.now_ns)
        follower.hear(view(epoch=1, session_ns=first_ns, mono_ns=follower.now_ns))
    if follower.newest is not None and follower.newest.mono_ns > follower.now_ns:
        return  # nonsense from within the second of tolerance

    assert Guidance(present=True) == follower.guidance()


@given(steps)
def test_silence_releases(said: list[tuple[dict[str, Any], float]]) -> None:
    """Whatever came before, 17 s of silence release training and uploads."""
    follower = Follower()
    _walk(follower, said)
    follower.now_ns += 17 * S
    guidance = follower.guidance()

    assert (guidance.hold, guidance.uploads, guidance.present) == (None, Uploads.GO, False)


@given(st.data())
def test_late_doubled_lost_states_leave_no_run_unprotected(data: st.DataObject) -> None:
    """In whatever order true states arrive, doubled or not, the newest that arrived counts."""
    fields = st.fixed_dictionaries(
        {
            "stop": st.sampled_from([None, BAD["stop"]]),
            "checkpoint": st.sampled_from([None, BAD["checkpoint"]]),
        }
    )
    said = data.draw(st.lists(fields, min_size=1, max_size=12))
    states = [view(epoch=n, mono_ns=NOW + n * S // 10, **f) for n, f in enumerate(said)]
    follower = Follower()
    follower.now_ns += 2 * S
    arrived = data.draw(st.lists(st.sampled_from(states), min_size=1, max_size=30))
    for state in arrived:
        follower.hear(state)
    follower.now_ns += data.draw(st.integers(0, 600)) * S
    true = max(arrived, key=lambda state: state.epoch).advice

    assert (true.checkpoint, true.stop) == (
        follower.guidance().checkpoint,
        follower.guidance().stop,
    )


def test_pure() -> None:
    """The same arguments give the same answer, whatever the order of calls."""
    states = [view(mono_ns=NOW, **BAD), view(mono_ns=NOW)]
    answers = [[decision.guide(JOB, s, NOW) for s in order] for order in (states, states[::-1])]

    assert answers[0] == answers[1][::-1]
    assert all(a != b for a, b in itertools.pairwise(answers[0]))
