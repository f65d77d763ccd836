"""Fixtures around a real mosquitto."""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING

import pytest

from support.broker import MOSQUITTO, Broker, Collector
from support.fleet import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Make brokers that are stopped at the end of the test, in whatever state they are."""
    if not shutil.which(MOSQUITTO):
        pytest.skip("mosquitto is not installed")
    made: list[Broker] = []
    numbers = itertools.count()

    def make(*options: str, **settings: Any) -> Broker:
        made.append(Broker(tmp_path / f"broker{next(numbers)}", *options, **settings))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture
def collect() -> Iterator[Callable[..., Collector]]:
    """Make subscribers that are closed at the end of the test."""
    made: list[Collector] = []

    def make(port: int, *topics: str, **settings: Any) -> Collector:
        made.append(Collector(port, *topics, **settings))
        return made[-1]

    yield make
    for collector in made:
        collector.close()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Make nodes that are stopped at the end."""
    made: list[Node] = []

    def make(*brokers: Any, **how: Any) -> Node:
        made.append(Node(tmp_path / "state", *brokers, **how))
        return made[-1]

    yield make
    for node in made:
        node.close()
