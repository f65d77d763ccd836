"""Whatever comes from outside is taken or refused in words, by every parser that there is."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import scratch, table
from fuzz.mutate import mutated
from fuzz.target import check, taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuzz.target import Target

EXAMPLES = 40
"""A sample: `make fuzz` looks for longer, and for new ways through the code."""


@pytest.fixture(params=table.NAMES)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each parser, with a folder of its own."""
    with scratch.folder() as folder:
        yield table.find(request.param, folder)


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(st.integers(0, 1 << 32), st.binary(max_size=120))
def test_broken_input_is_taken_or_refused(target: Target, seed: int, noise: bytes) -> None:
    """Bytes of no sense, and valid ones that are cut, flipped, doubled or have odd values."""
    samples = target.samples()
    random = Random(seed)
    check(target, noise)
    check(target, mutated(random.choice(samples), samples, random, as_json=target.json))


def test_valid_input_is_taken(target: Target) -> None:
    """At least one sample is taken: else only refusals would be tried."""
    assert any(taken(target)), target.name
