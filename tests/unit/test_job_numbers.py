"""What training processes tell of themselves: parsed strictly, added up, bounded."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.telling import CHANGED_S, UNCHANGED_S, Teller, job_label
from linkhold.decide import job_numbers
from linkhold.decide.job_numbers import FORGET_JOB_S, FORGET_S, Jobs
from linkhold.model import LinkholdError, WireError
from linkhold.model.numbers import NAMES, JobLabel, Numbers
from linkhold.wire.job_metrics import COUNTERS, job_families
from linkhold.wire.numbers import MOST, clean_label, numbers_request, parse_numbers
from linkhold.wire.openmetrics import render
from support.metrics import strict

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
TRAIN = JobLabel("train.py", "exp7")
PROCESS = "0123456789abcdef"

counts = st.builds(
    Numbers,
    st.floats(0, 1e9),
    *[st.integers(0, 10**9) for _ in range(len(NAMES) - 1)],
)


@given(st.text(), st.text(), counts)
def test_what_is_told_is_what_is_read(script: str, run: str, numbers: Numbers) -> None:
    """Whatever the script and the run are called, the request is accepted as it was meant."""
    label = JobLabel(clean_label(script) or "python", clean_label(run))

    request = json.loads(numbers_request(label, PROCESS, numbers))

    assert parse_numbers(request) == (label, PROCESS, numbers)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"script": ""}, "script"),
        ({"script": "a b"}, "script"),
        ({"script": "x" * 65}, "script"),
        ({"script": None}, "script"),
        ({"run": 5}, "run"),
        ({"process": "me"}, "process"),
        ({"numbers": []}, "numbers"),
        ({"numbers": {"held_s": -1}}, "numbers.held_s"),
        ({"numbers": {"held_s": float("nan")}}, "numbers.held_s"),
        ({"numbers": {"holds": True}}, "numbers.holds"),
        ({"numbers": {"holds": "7"}}, "numbers.holds"),
        ({"numbers": {"uploads": MOST * 2}}, "numbers.uploads"),
        ({"numbers": {"uploads": 10**400}}, "numbers.uploads"),
    ],
)
def test_nonsense_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    """A label or count that is none says which field is wrong."""
    request = json.loads(numbers_request(TRAIN, PROCESS, Numbers()))

    with pytest.raises(WireError, match=f"^{named}:"):
        parse_numbers({**request, **changes})


def test_other_versions_of_the_client() -> None:
    """A field that is not known is ignored, one that is not told is 0."""
    request = json.loads(numbers_request(TRAIN, PROCESS, Numbers(holds=3)))
    request["numbers"] = {"holds": 4, "of_tomorrow": "x"}

    assert parse_numbers({**request, "more": 1})[2] == Numbers(holds=4)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 9), st.integers(0, 400)),
        max_size=60,
    )
)
def test_a_sum_never_falls(told: list[tuple[int, int, int, int]]) -> None:
    """Processes that grow, end and come again: each counter of a known job only rises."""
    jobs, now_ns, before = Jobs(), 0, 0.0
    known: dict[tuple[int, int], int] = {}
    for process, again, more, pause_s in told:
        now_ns += pause_s * S
        key = process, again
        known[key] = known.get(key, 0) + more
        name = f"{process * 10 + again:016x}"
        jobs.tell(1, TRAIN, name, Numbers(holds=known[key]), now_ns)
        (sums,) = jobs.sums(now_ns)
        assert sums.numbers.holds >= before
        assert sums.numbers.holds == sum(known.values())
        assert sums.processes >= 1
        before = sums.numbers.holds


def test_ended_processes_stay_in_the_sum() -> None:
    """A restart of a job adds to its numbers; an hour after its last word the job is forgotten."""
    jobs = Jobs()
    jobs.tell(1, TRAIN, "a" * 16, Numbers(held_s=5.0), 0)
    later_ns = int((FORGET_S + 1) * S)
    jobs.tell(1, TRAIN, "b" * 16, Numbers(held_s=2.5), later_ns)

    (sums,) = jobs.sums(later_ns)
    assert (sums.numbers.held_s, sums.processes) == (7.5, 1)
    (sums,) = jobs.sums(later_ns + int((FORGET_S + 1) * S))
    assert (sums.numbers.held_s, sums.processes) == (7.5, 0)
    assert jobs.sums(later_ns + int((FORGET_JOB_S + 1) * S)) == ()


def test_who_was_only_frozen_is_not_counted_twice() -> None:
    """A process that is heard again after it was taken for ended tells its whole count anew."""
    jobs = Jobs()
    jobs.tell(1, TRAIN, "a" * 16, Numbers(holds=5), 0)
    later_ns = int((FORGET_S + 1) * S)
    assert jobs.sums(later_ns)[0].processes == 0
    jobs.tell(1, TRAIN, "a" * 16, Numbers(holds=6), later_ns)

    (sums,) = jobs.sums(later_ns)
    assert (sums.numbers.holds, sums.processes) == (6, 1)


def test_many_ended_processes_are_one_sum() -> None:
    """A job that is started again all day long stays small, and loses no count."""
    jobs, now_ns = Jobs(), 0
    for number in range(500):
        jobs.tell(1, TRAIN, f"{number:016x}", Numbers(holds=1), now_ns)
        now_ns += int((FORGET_S + 1) * S)

    (sums,) = jobs.sums(now_ns)
    assert sums.numbers.holds == 500
    assert len(next(iter(jobs._jobs.values())).ended) == job_numbers.MOST_ENDED


def test_ended_jobs_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who starts many short jobs loses the one that ended first, and never one of others."""
    monkeypatch.setattr(job_numbers, "MOST_JOBS_OF_A_USER", 2)
    jobs, now_ns = Jobs(), 0
    jobs.tell(2, JobLabel("others"), "f" * 16, Numbers(), now_ns)
    for name in "abcd":
        now_ns += int((FORGET_S + 1) * S)
        jobs.tell(1, JobLabel(name), name * 16, Numbers(), now_ns)

    assert {(one.uid, one.label.script) for one in jobs.sums(now_ns)} == {
        (2, "others"), (1, "c"), (1, "d"),
    }  # fmt: skip


def test_a_user_cannot_crowd_out_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """His share of jobs and processes is bounded, and so is all of it; known ones go on."""
    monkeypatch.setattr(job_numbers, "MOST_JOBS", 3)
    monkeypatch.setattr(job_numbers, "MOST_JOBS_OF_A_USER", 2)
    monkeypatch.setattr(job_numbers, "MOST_PROCESSES_OF_A_USER", 4)
    jobs = Jobs()
    for name in "ab":
        jobs.tell(1, JobLabel(name), name * 16, Numbers(), 0)
    with pytest.raises(LinkholdError, match="no more jobs"):
        jobs.tell(1, JobLabel("c"), "c" * 16, Numbers(), 0)
    jobs.tell(2, JobLabel("c"), "c" * 16, Numbers(), 0)
    with pytest.raises(LinkholdError, match="no more jobs"):
        jobs.tell(3, JobLabel("d"), "d" * 16, Numbers(), 0)
    for name in "01":
        jobs.tell(1, JobLabel("a"), name * 16, Numbers(), 0)
    with pytest.raises(LinkholdError, match="no more processes"):
        jobs.tell(1, JobLabel("a"), "2" * 16, Numbers(), 0)
    jobs.tell(1, JobLabel("a"), "0" * 16, Numbers(holds=9), 0)

    assert len(jobs.sums(0)) == 3


def test_every_number_is_a_metric() -> None:
    """Each field has its counter, with job, run and user as labels, as strict parsers read them."""
    assert set(COUNTERS) == {field.name for field in fields(Numbers)}
    jobs = Jobs()
    jobs.tell(1000, TRAIN, PROCESS, Numbers(held_s=1.5, uploads_kept_back=2), 0)

    text = render(job_families(jobs.sums(0)), openmetrics=True).decode()
    found = {one.name: one for family in strict(text) for one in family.samples}

    assert found["linkhold_training_held_seconds_total"].value == 1.5
    assert found["linkhold_training_uploads_kept_back_total"].labels == {
        "script": "train.py",
        "run": "exp7",
        "uid": "1000",
    }


@pytest.mark.parametrize(
    ("environment", "run"),
    [
        ({}, ""),
        ({"TORCHELASTIC_RUN_ID": "none"}, ""),
        ({"TORCHELASTIC_RUN_ID": "6d2f9c7e-0c1b-4c43-9f56-0a0d6a1f2b3c"}, ""),
        ({"TORCHELASTIC_RUN_ID": "exp/7"}, "exp_7"),
        ({"SLURM_JOB_ID": "4711"}, "slurm4711"),
        ({"SLURM_JOB_ID": "4711", "TORCHELASTIC_RUN_ID": "exp7"}, "exp7"),
    ],
)
def test_only_a_named_run_is_a_label(environment: dict[str, str], run: str) -> None:
    """What is new at each start (a uuid, a pid) would be a new series each time."""
    assert job_label(environment).run == run


def test_pauses(tmp_path: Path) -> None:
    """A word every minute, 15 s after the last one when something changed; none without news."""
    teller = Teller()
    began_s = teller._last_s
    assert not teller.due(Numbers(), began_s + CHANGED_S - 1, "a")
    assert teller.due(Numbers(), began_s + CHANGED_S, "a")

    assert not teller.tell(tmp_path, Numbers(), began_s + CHANGED_S, "a")
    assert not teller.due(Numbers(), began_s + 2 * CHANGED_S - 1, "a"), "nobody took it: a pause"
    teller._told = Numbers()
    assert not teller.due(Numbers(), began_s + UNCHANGED_S, "a")
    assert teller.due(Numbers(holds=1), began_s + 2 * CHANGED_S, "a")


def test_an_agent_that_was_started_again_is_told_at_once(tmp_path: Path) -> None:
    """By all who told the one before, so that a sum does not grow; one that refuses waits."""
    teller = Teller()
    now_s = teller._last_s
    assert not teller.due(Numbers(), now_s, "b"), "who told nothing yet has time"
    teller._told, teller._session = Numbers(), "a"
    assert not teller.due(Numbers(), now_s, "a")

    assert teller.due(Numbers(), now_s, "b")
    assert not teller.tell(tmp_path, Numbers(), now_s, "b")
    assert not teller.due(Numbers(), now_s + CHANGED_S - 1, "b")
    assert teller.due(Numbers(), now_s + CHANGED_S, "b")
