"""Fixtures of the tests that run in network namespaces of the host's kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.netns import Namespace, missing

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def can_make_namespaces() -> None:
    """Skip with the reason where network namespaces cannot be made."""
    reason = missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def namespace(can_make_namespaces: None) -> Iterator[Namespace]:
    """A network namespace of the test's own."""
    with Namespace() as made:
        yield made
