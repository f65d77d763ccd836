"""A simulated day, at a coarser pace than `make soak`: nothing grows, and a leak would be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from soak import simulated
from soak.simulated import Day

if TYPE_CHECKING:
    import pytest

    from linkhold.model import Event

DAY_H, BEAT_S, FAULTS_AN_HOUR = 24, 60, 4


def test_nothing_grows_in_a_day() -> None:
    """Agent and relay keep as much at the end of a day with a hundred faults as in its middle."""
    found = simulated.run(DAY_H, beat_s=BEAT_S, faults_an_hour=FAULTS_AN_HOUR)

    assert [one.what for one in found] == [
        "simulated day: memory blocks",
        "simulated day: database",
        "simulated day: files",
    ]
    assert all(one.ok for one in found), found


def test_a_leak_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that kept every event would be told by its memory blocks."""
    kept: list[Event] = []
    record = Day._record

    def leak(day: Day, events: list[Event], document: bytes) -> None:
        kept.extend(events)
        record(day, events, document)

    monkeypatch.setattr(Day, "_record", leak)
    found = simulated.run(3, beat_s=BEAT_S, faults_an_hour=40)

    assert [one.what for one in found if not one.ok] == ["simulated day: memory blocks"]
