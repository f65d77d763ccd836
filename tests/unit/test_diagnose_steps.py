"""Steps have deadlines of their own, and none fails another."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from linkhold.diagnose.steps import Steps
from linkhold.model import HostError, Unavailable


def test_a_step_that_hangs_is_left_behind() -> None:
    """Its deadline ends it, its name and the reason stay; a blocking one goes on by itself."""
    told: list[tuple[str, bool]] = []
    release = threading.Event()

    async def both() -> tuple[bool | None, int | None, Steps]:
        steps = Steps(lambda step, ended: told.append((step, ended)), time.monotonic() + 5)
        hung = steps.blocking("hung", lambda: release.wait(10), 0.1)
        quick = steps.blocking("quick", lambda: 7, 1)
        return *await asyncio.gather(hung, quick), steps

    began = time.monotonic()
    hung, quick, steps = asyncio.run(both())
    took_s = time.monotonic() - began
    release.set()

    assert (hung, quick) == (None, 7)
    assert [(one.step, one.why) for one in steps.missing] == [("hung", "no result within 0.1 s")]
    assert took_s < 2
    assert told.count(("hung", True)) == told.count(("quick", True)) == 1


def test_the_end_of_the_run_ends_every_step() -> None:
    """Whatever a step's own deadline is."""

    async def late() -> Steps:
        steps = Steps(lambda *_: None, time.monotonic() - 1)
        await steps.run("late", asyncio.sleep(30), 60)
        return steps

    assert [one.step for one in asyncio.run(late()).missing] == ["late"]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (Unavailable("run as root"), "run as root"),
        (HostError("rtnetlink: no answer"), "rtnetlink: no answer"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_a_step_that_fails_says_why(error: Exception, why: str) -> None:
    """In words that a person can use, and the run goes on."""

    def fail() -> None:
        raise error

    async def failing() -> Steps:
        steps = Steps(lambda *_: None, time.monotonic() + 5)
        await steps.blocking("step", fail, 1)
        return steps

    assert [one.why for one in asyncio.run(failing()).missing] == [why]
