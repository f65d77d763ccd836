"""The page about retries says what the code does."""

from __future__ import annotations

import doctest
import re
from dataclasses import fields
from pathlib import Path

import pytest

from linkhold.client.retry import Limits, Policy, breaker
from linkhold.client.retry.names import Sort
from linkhold.client.retry.record import NAMES

PAGE = (Path(__file__).parents[2] / "docs/retry.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("made", [Policy(), Limits()], ids=["Policy", "Limits"])
def test_every_value_is_there_with_its_default(made: Policy | Limits) -> None:
    """Each value of a policy and of a dependency has a row with its default."""
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", PAGE, flags=re.MULTILINE))

    for field in fields(made):
        value = getattr(made, field.name)
        shown = rows[field.name].replace('"', "'")
        assert shown == (f"{value:g}" if isinstance(value, (int, float)) else str(value))


def test_every_counter_and_family_is_there() -> None:
    """Each counter and each family is named."""
    for name in NAMES:
        assert f"`{name}`" in PAGE
    for sort in Sort:
        assert f"\n| {sort.value} |" in PAGE


def test_the_breakers_example_works() -> None:
    """The example in the docstring of Breaker is true."""
    failed, tried = doctest.testmod(breaker)

    assert (failed, tried > 5) == (0, True)
