"""The lab: one guest kernel for all tests of a session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.lab.host import Lab
from support.lab.machine import LabUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A booted lab; tests are skipped with the reason where there cannot be one.

    With LINKHOLD_REQUIRE_LAB set (CI) they fail instead.
    """
    with Lab() as booted:
        try:
            booted.boot()
        except LabUnavailable as reason:
            give_up = pytest.fail if os.environ.get("LINKHOLD_REQUIRE_LAB") else pytest.skip
            give_up(f"no kernel lab: {reason}")
        yield booted
