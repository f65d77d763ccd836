"""Fixtures of the tests that run whole agents."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from support import netns, running
from support.beyond import Beyond
from support.broker import Collector, wait_until
from support.cable import Cable
from support.places import Place
from support.running import Running, TiedBroker
from support.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from support.netns import Namespace


@pytest.fixture
def network() -> Iterator[tuple[Namespace, Beyond]]:
    """A namespace whose way out is eth0, a cable to p0; the test's thread is inside.

    Beyond the cable is a gateway that answers, which is the resolver too.
    """
    reason = netns.missing() or running.missing()
    if reason:
        pytest.skip(reason)
    with netns.Namespace() as made:
        made.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        made.veth("eth0", "p0")
        made.ip("addr add 10.0.0.2/24 dev eth0")
        made.ip("route add default via 10.0.0.1")
        with Beyond(made, "p0") as beyond, made.enter():
            yield made, beyond


@pytest.fixture
def ns(network: tuple[Namespace, Beyond]) -> Namespace:
    """The namespace of the node."""
    return network[0]


@pytest.fixture
def beyond(network: tuple[Namespace, Beyond]) -> Beyond:
    """What answers at the other end of the node's cable."""
    return network[1]


@pytest.fixture
def place() -> Iterator[Path]:
    """A short folder that every user can reach."""
    with Place() as path:
        yield path


@pytest.fixture
def agents(ns: Namespace, place: Path) -> Iterator[Callable[..., Running]]:
    """Make agents, not started yet; they are killed at the end of the test."""
    made: list[Running] = []

    def make(config: str = "", **how: Any) -> Running:
        made.append(Running(how.pop("place", place), config, **how))
        return made[-1]

    yield make
    for agent in made:
        agent.kill()


@pytest.fixture
def agent(agents: Callable[..., Running]) -> Running:
    """An agent with the empty configuration, ready."""
    return agents().start().wait_ready()


@pytest.fixture
def trainers(ns: Namespace) -> Iterator[Callable[..., Trainer]]:
    """Make clients of leg A that are closed at the end of the test."""
    made: list[Trainer] = []

    def make(agent: Running, *topics: str, **how: Any) -> Trainer:
        made.append(Trainer(agent.trainer_socket, *topics, **how))
        return made[-1]

    yield make
    for trainer in made:
        trainer.close()


@pytest.fixture
def fleets(ns: Namespace, place: Path) -> Iterator[Callable[..., TiedBroker]]:
    """Make brokers of the fleet, on the loopback of the namespace, not started yet."""
    made: list[TiedBroker] = []
    numbers = itertools.count()

    def make(*options: str) -> TiedBroker:
        made.append(TiedBroker(place / f"fleet{next(numbers)}", *options))
        return made[-1]

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture
def collect(ns: Namespace) -> Iterator[Callable[..., Collector]]:
    """Make subscribers of a fleet's broker that are closed at the end of the test."""
    made: list[Collector] = []

    def make(broker: TiedBroker, *topics: str, **how: Any) -> Collector:
        made.append(Collector(broker.port, *(topics or ("linkhold/#",)), **how))
        return made[-1]

    yield make
    for collector in made:
        collector.close()


@pytest.fixture
def cable(ns: Namespace, trainers: Callable[..., Trainer]) -> Callable[[Running], Cable]:
    """Make the cable of an agent."""

    def make(agent: Running) -> Cable:
        trainer = trainers(agent)
        wait_until(trainer.states)
        return Cable(ns, agent, trainer)

    return make
