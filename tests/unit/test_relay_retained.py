"""In which order the relay asks a broker for what it keeps, with a broker that drops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from linkhold.relay.decide.retained import BATCH, LEAVES, MOST_PART_S, QUIET_S, Retained
from linkhold.roster import MOST_NODES, MOST_SITES

if TYPE_CHECKING:
    from linkhold.relay.decide.retained import Demand
    from linkhold.relay.decide.values import Key


class Dropping:
    """A broker with ``nodes``, which sends at most ``most`` retained messages for a subscription.

    ``asked`` is what each topic is subscribed with: QoS, by topic.
    """

    def __init__(self, nodes: int, most: int, made_up: int = 0) -> None:
        self.made_up = [(f"made-up-{number}", "bad") for number in range(made_up)]
        self.keys = self.made_up + [("s", f"n{number}") for number in range(nodes)]
        self.named = 0
        self.most = most
        self.asked: dict[str, int] = {}
        self.sent: dict[str, set[Key]] = {leaf: set() for leaf in LEAVES}

    def do(self, demand: Demand, retained: Retained, now_s: float) -> None:
        """Take a subscription, and send what it is for."""
        assert len(demand.topics) <= BATCH
        for topic in demand.topics:
            if demand.end:
                del self.asked[topic]
            else:
                self.asked[topic] = demand.qos
        if demand.end:
            return
        retained.answered(now_s)
        for key, leaf in self._kept(demand)[: self.most]:
            retained.heard(key, leaf, now_s)
            self.sent[leaf].add(key)

    def _kept(self, demand: Demand) -> list[tuple[Key, str]]:
        if not demand.retained:
            return []
        found = []
        for topic in demand.topics:
            _, _, site, node, leaf = topic.split("/")
            keys = self.keys if (site, node) == ("+", "+") else [(site, node)]
            self.named += node != "+"
            found += [(key, leaf) for key in keys]
        return found


def drain(broker: Dropping) -> None:
    """Ask until all has come."""
    retained, now_s = Retained(0.0), 0.0
    for _ in range(1000):
        while (demand := retained.next(now_s)) is not None:
            broker.do(demand, retained, now_s)
        if retained.complete:
            return
        now_s += retained.wait_s(now_s)
    raise AssertionError("it never ends")


@given(st.integers(0, 1500), st.integers(500, 2000))
def test_every_state_and_birth_comes_though_the_broker_drops(nodes: int, most: int) -> None:
    """Whatever of the nodes that it names a broker drops is asked for by name.

    In the end the session keeps what comes, with QoS 1, and nothing is asked for by name.
    """
    broker = Dropping(nodes, most)
    drain(broker)

    assert broker.sent["state"] == broker.sent["birth"] == broker.sent["status"]
    assert len(broker.sent["status"]) == min(nodes, most)
    assert broker.asked == {f"linkhold/v1/+/+/{leaf}": 1 for leaf in LEAVES}


def test_made_up_sites_hide_nobody() -> None:
    """One node that made up sites comes first: the others are asked for by name all the same.

    The broker sends the presence of all, and drops all states and births but those of the first.
    """
    broker = Dropping(50, MOST_NODES + 50, made_up=MOST_NODES)
    real = set(broker.keys) - set(broker.made_up)

    def shrink(demand: Demand, retained: Retained, now_s: float) -> None:
        broker.most = MOST_NODES + 50 if demand.topics[0].endswith("+/status") else BATCH
        broker.do(demand, retained, now_s)

    retained, now_s = Retained(0.0), 0.0
    while not retained.complete:
        while (demand := retained.next(now_s)) is not None:
            shrink(demand, retained, now_s)
        now_s += retained.wait_s(now_s)

    assert real <= broker.sent["state"] & broker.sent["birth"]
    assert len(retained._known.nodes) == MOST_SITES + len(real)
    assert broker.named <= 2 * 2 * (MOST_SITES + len(real))  # each of two leaves, and its end


def test_what_still_comes_is_waited_for() -> None:
    """The next part is asked for when the broker is quiet, or has gone on for a minute."""
    retained = Retained(0.0)
    assert retained.next(0.0) is not None
    assert retained.next(5.0) is None  # not answered
    retained.answered(5.0)
    retained.heard(("s", "n"), "status", 5.0 + QUIET_S / 2)
    assert retained.next(5.0 + QUIET_S) is None
    assert retained.next(5.0 + 2 * QUIET_S) is not None
    retained.answered(6.0)
    for tenth in range(int(MOST_PART_S - 1) * 10):
        retained.heard(("s", "n"), "birth", 6.0 + tenth / 10)
        assert retained.next(6.0 + tenth / 10) is None
    assert retained.next(6.0 + MOST_PART_S) is not None
