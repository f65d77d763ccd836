"""The metadata service over time: what is believed, which cloud it is, when it is asked again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.cli import status_beyond
from linkhold.decide.metadata_watch import Course, Outcome, begin, compare, conditions, step
from linkhold.model import Network
from linkhold.model.probes import Answer, Heard, Metadata

AWS = "Amazon EC2"
FOUR, SIX = "http://169.254.169.254/latest", "http://[fd00:ec2::254]/latest"
EVERY_S = 300.0
ID = f"{AWS}: i-0abc1234def567890"


def answers(four: Heard, six: Heard = Heard.UNREACHABLE) -> tuple[Answer, ...]:
    """Return what both addresses say."""
    detail = ID if four is Heard.ANSWERS else f"{AWS}: 401"
    return (Answer("metadata", FOUR, four, detail=detail), Answer("metadata", SIX, six, detail="x"))


def fresh(vendor: str = AWS, *, wanted: bool = False) -> Course:
    """Return a course that has asked nobody yet."""
    return begin(Course(), vendor, wanted=wanted, asked=True, now_ns=1)


def after(course: Course, *heard: Heard) -> Outcome:
    """Return what follows when these are heard over IPv4, one after the other."""
    done = Outcome(course, 0.0)
    for number, one in enumerate(heard):
        done = step(done.course, answers(one), EVERY_S, 7, 100 + number)
    return done


def test_nothing_is_asked_where_there_is_no_cloud() -> None:
    """No cloud machine, or the owner's never: nothing is known, and the state says why."""
    none = begin(Course(), "", wanted=False, asked=False, now_ns=1).known
    never = begin(Course(), AWS, wanted=False, asked=False, now_ns=1).known

    assert (none.verdict, none.reason) == ("not_asked", "this is no cloud machine")
    assert (never.vendor, never.reason) == (AWS, "the configuration says so")


def test_the_first_answer_counts_and_a_change_takes_two() -> None:
    """One odd answer changes nothing and is followed soon; the second one is believed."""
    good = after(fresh(), Heard.ANSWERS)
    assert (good.course.known.verdict, good.course.known.heard) == ("reachable", True)
    assert 0.9 * EVERY_S < good.wait_s <= EVERY_S

    once = step(good.course, answers(Heard.SILENT), EVERY_S, 7, 200)
    assert once.course.known == good.course.known
    assert once.wait_s <= 30
    twice = step(once.course, answers(Heard.SILENT), EVERY_S, 7, 201)
    assert (twice.course.known.verdict, twice.course.known.since_ns) == ("gone", 201)
    assert twice.course.known.reason == f"169.254.169.254: {AWS}: 401"


@pytest.mark.parametrize("between", [Heard.ANSWERS, Heard.UNKNOWN])
def test_two_of_different_kinds_are_no_two(between: Heard) -> None:
    """Silence, something else, silence: nothing is believed yet."""
    course = after(fresh(), Heard.ANSWERS, Heard.SILENT, between, Heard.SILENT).course

    assert course.known.verdict == "reachable"


def test_a_lie_is_unknown_and_no_death() -> None:
    """A page in its place is unknown, also beside an address that does not exist."""
    course = after(fresh(), Heard.ANSWERS, Heard.UNKNOWN, Heard.UNKNOWN).course

    assert (course.known.verdict, course.known.heard) == ("unknown", True)


def test_the_cloud_is_found_by_who_answers() -> None:
    """Asked on a machine that names no cloud: the answer names it, and it alone is asked on."""
    course = after(fresh("", wanted=True), Heard.ANSWERS).course
    assert course.known.vendor == AWS
    again = begin(course, "", wanted=True, asked=True, now_ns=9)
    other = begin(course, "Google Cloud", wanted=True, asked=True, now_ns=9)

    assert again == course
    assert (other.known.vendor, other.known.verdict, other.known.heard) == (
        "Google Cloud",
        "unknown",
        False,
    )


def test_who_alerts() -> None:
    """What answered before, or what the owner wants asked; never a service switched off."""
    gone = Metadata(AWS, "gone", "silent", 5)
    for known, told in (
        (gone, False),
        (replace(gone, heard=True), True),
        (replace(gone, wanted=True), True),
        (replace(gone, verdict="unknown", heard=True), True),
        (replace(gone, verdict="unknown", reason="not asked yet", wanted=True), False),
        (replace(gone, verdict="reachable", heard=True), False),
    ):
        found = list(conditions(known, Network.OK))
        assert bool(found) is told
        assert list(conditions(known, Network.DOWN)) == []


def test_events_tell_changes_only() -> None:
    """The first verdict is news without a length; a new reason is none."""
    before = fresh().known
    there = replace(before, verdict="reachable", reason="", since_ns=2_000_000_000, heard=True)
    (first,) = compare(before, there, 2_000_000_000)
    assert (first.type, first.data["previous_s"]) == ("metadata.reachable", None)
    gone = replace(there, verdict="gone", reason="a", since_ns=5_000_000_000)
    (second,) = compare(there, gone, 5_000_000_000)
    assert (second.type, second.data["previous_s"]) == ("metadata.gone", 3.0)

    assert list(compare(gone, replace(gone, reason="b"), 9)) == []
    assert list(compare(gone, Metadata(AWS), 9)) == []


@given(st.lists(st.sampled_from(list(Heard))), st.integers(1, 1 << 30))
def test_rules_that_always_hold(script: list[Heard], seed: int) -> None:
    """Reachable needs an answer; what was heard stays heard; nobody asks more than allowed."""
    course, heard = fresh(), False
    for number, one in enumerate(script):
        done = step(course, answers(one), EVERY_S, seed, number + 2)
        course, heard = done.course, heard or one is Heard.ANSWERS
        assert 27.0 <= done.wait_s <= EVERY_S
        assert course.known.verdict != "reachable" or heard
        assert course.known.heard <= heard


def test_status_says_it_in_a_line() -> None:
    """Who answers, who does not and since when; no line where nothing is asked."""
    probe = {"verdict": "alive", "reason": "", "since_ns": 0}
    detail = {
        "probes": {
            "gateway 10.0.0.1 on eth0": probe,
            "nfs": {**probe, "verdict": "dead", "reason": "refused"},
            "resolver 10.0.0.53": {**probe, "verdict": "mute", "reason": "silent"},
            "way out ppp0": {**probe, "verdict": "unknown", "reason": "no gateway"},
        },
        "metadata": {"verdict": "gone", "vendor": AWS, "reason": "silent", "since_ns": 0},
    }

    beyond = (
        "beyond: 1 of 4 answer; nfs is dead for 1 min 30 s (refused); "
        "resolver 10.0.0.53 has not answered since the start (silent); "
        "way out ppp0 is unknown (no gateway)"
    )
    assert list(status_beyond.lines(detail, 90 * 10**9)) == [
        beyond,
        f"metadata service: {AWS}, does not answer for 1 min 30 s (silent)",
    ]
    assert list(status_beyond.lines({}, 1)) == []
