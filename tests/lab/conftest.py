"""The lab: one guest kernel for all tests of a session, and machines with systemd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NoReturn

import pytest

from support.lab.host import Lab
from support.lab.machine import LabUnavailable
from support.lab.systemd import Machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from support.lab.systemd import Manager


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A booted lab; tests are skipped with the reason where there cannot be one.

    With LINKHOLD_REQUIRE_LAB set (CI) they fail instead.
    """
    with Lab() as booted:
        try:
            booted.boot()
        except LabUnavailable as reason:
            _give_up(reason)
        yield booted


@pytest.fixture
def systemd_machine() -> Iterator[Callable[..., Machine]]:
    """Return a maker of booted machines with systemd; its arguments are those of ``Machine``.

    Each machine is a guest of its own, and ends with the test.
    """
    yield from _maker()


@pytest.fixture(scope="module")
def systemd_machines() -> Iterator[Callable[..., Machine]]:
    """Return such a maker for tests whose machines run side by side, until the module's end."""
    yield from _maker()


def _maker() -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def make(
        manager: Manager = "none", files: Mapping[str, str] | None = None, *, dhcp_lease_s: int = 0
    ) -> Machine:
        try:
            machine = Machine(manager, files, dhcp_lease_s=dhcp_lease_s)
            made.append(machine)
            machine.boot()
        except LabUnavailable as reason:
            _give_up(reason)
        return machine

    yield make
    for machine in made:
        machine.discard()


def _give_up(reason: LabUnavailable) -> NoReturn:
    if os.environ.get("LINKHOLD_REQUIRE_LAB"):
        pytest.fail(f"no kernel lab: {reason}")
    pytest.skip(f"no kernel lab: {reason}")
