"""Fixtures of the tests of the pages."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.world import World, missing, world
from support import installed
from support.lab.host import Lab
from support.lab.machine import LabUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docs.place import Host


@pytest.fixture(scope="session")
def fleet() -> Iterator[World]:
    """A node whose agent serves, in a fleet with two brokers and Alertmanager."""
    if missing():
        pytest.skip(missing())
    with world() as made:
        yield made


@pytest.fixture(scope="session")
def host(fleet: World) -> Host:
    """The node of that fleet."""
    return fleet.host


@pytest.fixture(scope="session")
def wheel() -> Iterator[Path]:
    """The wheel, as `make wheel` builds it."""
    with tempfile.TemporaryDirectory() as folder:
        yield installed.build_wheel(Path(folder))


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A booted lab; tests are skipped with the reason where there cannot be one."""
    with Lab() as booted:
        try:
            booted.boot()
        except LabUnavailable as reason:
            pytest.skip(f"no kernel lab: {reason}")
        yield booted
