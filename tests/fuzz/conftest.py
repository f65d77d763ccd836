"""What the targets of this folder keep between two calls ends with each file of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuzz import of_network

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def no_loop_left() -> Iterator[None]:
    """Close the loop of targets that are coroutines."""
    yield
    of_network.end_loop()
