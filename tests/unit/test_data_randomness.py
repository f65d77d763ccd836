"""The random state of a worker: kept, compared, and carried to the next one."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from linkhold.client.data import randomness


def draw() -> tuple[float, ...]:
    """Draw once from each generator."""
    return random.random(), float(np.random.normal()), torch.rand(1).item()  # noqa: NPY002


def test_what_was_drawn_is_drawn_again() -> None:
    """Restored, and packed and unpacked, all three generators go on as they would have."""
    draw()
    state = randomness.capture()
    wanted = [draw() for _draw in range(3)]

    randomness.restore(state)
    assert [draw() for _draw in range(3)] == wanted

    randomness.unpack(randomness.pack(state))
    assert [draw() for _draw in range(3)] == wanted


@pytest.mark.parametrize(
    "drawn",
    [random.random, np.random.rand, np.random.standard_normal, lambda: torch.rand(1)],
)
def test_each_draw_is_another_state(drawn: object) -> None:
    """A state is the same as itself only, whichever generator was used."""
    assert callable(drawn)
    np.random.seed(3)  # noqa: NPY002 - and no half of a pair of normal numbers is kept
    before = randomness.capture()
    assert randomness.same(before, randomness.capture())

    drawn()

    assert not randomness.same(before, randomness.capture())
    assert not randomness.same((before[0], None, before[2]), before)
