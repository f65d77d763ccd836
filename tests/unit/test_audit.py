"""Verdicts on connections, what they are for, and the sentence at the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkhold.decide.audit import (
    Audited,
    Facts,
    audited,
    kind,
    limit_s,
    sentence,
    stays_here,
    summary,
)
from linkhold.decide.audit.kinds import store_ports
from linkhold.decide.audit.report import in_order
from linkhold.decide.audit.verdicts import verdict
from linkhold.model.jobs import TrainingProcess
from linkhold.model.keepalive import Connection, Verdict

ONE = Connection(5, 1, "10.0.0.1", 41000, "10.0.0.9", 41001, timer=0, timer_ms=0)
KEEPALIVE = replace(ONE, timer=2, timer_ms=60_000)


@pytest.mark.parametrize(
    ("timer", "left_ms", "wanted_s", "expected"),
    [
        (0, 0, 60, Verdict.UNPROTECTED),
        (2, 60_000, 60, Verdict.PROTECTED),
        (2, 60_040, 60, Verdict.PROTECTED),
        (2, 1_000, 60, Verdict.PROTECTED),
        (2, 61_000, 60, Verdict.STALE),
        (2, 7_200_000, None, Verdict.PROTECTED),
        (1, 200, 60, Verdict.BUSY),
        (4, 200, 60, Verdict.BUSY),
        (5, 200, 60, Verdict.BUSY),
    ],
)
def test_verdict(timer: int, left_ms: int, wanted_s: int | None, expected: Verdict) -> None:
    """No timer: no SO_KEEPALIVE. More left than wanted: armed before. Another timer hides it."""
    assert verdict(replace(ONE, timer=timer, timer_ms=left_ms), wanted_s) is expected


@pytest.mark.parametrize(
    ("profile_s", "present_s", "expected"),
    [(600, 7200, 600), (600, 120, 120), (None, 120, 120), (600, None, 600), (None, None, None)],
)
def test_the_shorter_time_counts(
    profile_s: int | None, present_s: int | None, expected: int | None
) -> None:
    """A timer is too long by what is wanted, and old by what the namespace has now."""
    assert limit_s(profile_s, present_s) == expected


GLOO = frozenset({"python", "pt_gloo_runloop", "gloo_tcp_loop", "pt_tcpstore_uv"})


@pytest.mark.parametrize(
    ("local_port", "remote_port", "facts", "expected"),
    [
        (41000, 29511, Facts(frozenset({29511})), "TCPStore"),
        (29511, 41000, Facts(frozenset({29511})), "TCPStore"),
        (41000, 443, Facts(threads=GLOO), "HTTPS or S3"),
        (22, 41000, Facts(), "ssh"),
        (41000, 2049, Facts(), "NFS"),
        (41000, 50051, Facts(), "gRPC"),
        (22, 50051, Facts(), "ssh"),
        (50051, 41000, Facts(), "unknown"),
        (41000, 41001, Facts(threads=GLOO), "Gloo"),
        (41000, 41001, Facts(threads=frozenset({"NCCL Progress 0"})), "NCCL"),
        (41000, 41001, Facts(threads=GLOO | {"pt_nccl_watchdg"}), "NCCL or Gloo"),
        (41000, 41001, Facts(threads=frozenset({"pt_tcpstore_uv"})), "TCPStore"),
        (41000, 41001, Facts(threads=frozenset({"event_engine"})), "gRPC"),
        (41000, 41001, Facts(threads=frozenset({"python"})), "unknown"),
    ],
)
def test_kind(local_port: int, remote_port: int, facts: Facts, expected: str) -> None:
    """The job's own ports first, then known ones, then what threads tell; never a client's port."""
    assert kind(replace(ONE, local_port=local_port, remote_port=remote_port), facts) == expected


@pytest.mark.parametrize(
    ("words", "env", "expected"),
    [
        ((), {"MASTER_PORT": "29501"}, {29501}),
        (("torchrun", "--rdzv_endpoint=node0:29777", "train.py"), {}, {29777}),
        (("torchrun", "--rdzv-endpoint", "node0"), {}, {29400}),
        (("torchrun", "--rdzv-endpoint", "[fd00::1]"), {}, {29400}),
        (("torchrun", "--rdzv-endpoint", "[fd00::1]:5"), {}, {5}),
        (("torchrun", "--master-port", "29502"), {"MASTER_PORT": "x"}, {29502}),
        (("torchrun", "--master_port"), {"MASTER_PORT": "70000"}, set()),
    ],
)
def test_where_a_job_meets(words: tuple[str, ...], env: dict[str, str], expected: set[int]) -> None:
    """Ports come from the environment and from torchrun's arguments; nonsense is none."""
    process = TrainingProcess(1, 1, 0, "python", words, env)

    assert store_ports([process]) == expected


@pytest.mark.parametrize(
    ("local", "remote", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("10.0.0.1", "127.8.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("fe80::1", "fe80::2", False),
    ],
)
def test_loopback(local: str, remote: str, expected: bool) -> None:  # noqa: FBT001
    """What goes to loopback or to the same address never leaves the host."""
    assert stays_here(replace(ONE, local=local, remote=remote)) is expected


def many(**counts: int) -> list[Audited]:
    """Return so many connections of each verdict, and of loopback."""
    made = {
        "unprotected": ONE,
        "protected": KEEPALIVE,
        "stale": replace(KEEPALIVE, timer_ms=7_000_000),
        "busy": replace(ONE, timer=1, timer_ms=200),
        "loopback": replace(ONE, local="127.0.0.1", remote="127.0.0.1"),
    }
    return [
        audited(made[name], 600, Facts()) for name, count in counts.items() for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("counts", "begins"),
    [
        (
            {"unprotected": 31, "protected": 3, "loopback": 9},
            "31 of 34 connections of job X are not",
        ),
        ({"unprotected": 1, "protected": 1}, "1 of 2 connections of job X is not protected; "),
        (
            {"protected": 34},
            "all 34 connections of job X are protected: an idle one is probed within",
        ),
        ({"stale": 2, "protected": 1}, "2 of 3 connections of job X are armed with a longer time"),
        ({"busy": 2}, "2 of 2 connections of job X had data in flight at every look"),
        ({"loopback": 2}, "no TCP connection of job X goes to another host (2 on loopback"),
        ({}, "no TCP connection of job X goes to another host"),
    ],
)
def test_the_sentence(counts: dict[str, int], begins: str) -> None:
    """It begins with the figures of what leaves the host; loopback counts as nothing."""
    assert sentence(summary(many(**counts), "job X", 600)).startswith(begins)


def test_the_sentence_names_remedy_and_the_rest() -> None:
    """Who reads "not protected" learns what to do; stale and busy ones follow with theirs."""
    text = sentence(summary(many(unprotected=2, stale=1, busy=1), "job X", 600))

    assert "Hold.connect()" in text
    assert "keepalive: {cover: {processes: training}}" in text
    assert "(2 unknown)" in text
    assert "1 of 4 connections is armed with a longer time than the 600 s wanted" in text
    assert "1 of 4 connections had data in flight" in text


def test_the_worst_comes_first() -> None:
    """People read the top of a table: what is unprotected and leaves the host stands there."""
    found = in_order(many(loopback=1, protected=1, busy=1, stale=1, unprotected=1))

    assert [one.verdict.value for one in found] == [
        *("unprotected", "stale", "busy", "protected"),
        "unprotected",
    ]
    assert found[-1].loopback
