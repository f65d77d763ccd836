"""Idle connections behind a real firewall that forgets them after 3 s, all in one wait."""

from __future__ import annotations

import importlib.util
import time
from typing import TYPE_CHECKING

import pytest

from linkhold.actuators.cover import Cover
from linkhold.model.cover import Exclusions
from linkhold.model.jobs import TrainingProcess
from linkhold.model.keepalive import Timers
from support.forgetful import SERVER, Forgetful, sleep_until, started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.forgetful import End

IDLE_S = 3
WAIT_S = 8
SHORT_S, LONG_S = 3.0, 7.5
"""Outages: with probes of 1 s, 5 of them, one below and one above what is survived."""
NO_TORCH = "" if importlib.util.find_spec("torch") else "torch is not installed"
TORCH = (("torch alone", "none"), ("torch with hold", "hold"), ("torch from outside", "none"))

Fates = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def fates(can_make_namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fates]:
    """What became of each kind of connection after a silence longer than the firewall's limit."""
    with Forgetful(clients=2) as firewall:
        ends = _start(firewall)
        firewall.forget_after(IDLE_S)
        for end in ends.values():
            end.go()
        for end in ends.values():
            end.ready()
        cover = Cover(tmp_path_factory.mktemp("cover"))
        outside = [
            ends[name] for name in ("cover from outside", "torch from outside") if name in ends
        ]
        processes = [TrainingProcess(e.pid, started(e.pid), 0, "python", ()) for e in outside]
        found = cover.scan(processes, Timers(1, 1, 127), Exclusions())
        assert not found.errors
        began_s = time.monotonic()
        firewall.cut(5001, 5002, on=True)
        sleep_until(began_s + SHORT_S)
        firewall.cut(5001, on=False)
        sleep_until(began_s + LONG_S)
        firewall.cut(5002, on=False)
        sleep_until(began_s + WAIT_S)
        for end in ends.values():
            end.go()
        yield {name: end.fate() for name, end in ends.items() if "rank 0" not in name}


def _start(firewall: Forgetful) -> dict[str, End]:
    """Start all ends; the second client namespace has a short keepalive by sysctl."""
    plain, by_sysctl = firewall.clients
    by_sysctl.run(
        "sysctl", "-qw", "net.ipv4.tcp_keepalive_time=1", "net.ipv4.tcp_keepalive_intvl=1"
    )
    ranks: dict[str, End] = {}
    for number, (name, cover) in enumerate(() if NO_TORCH else TORCH):
        where = (SERVER, str(6000 + number))
        ranks[f"{name}, rank 0"] = firewall.end(firewall.server, "rank", "none", "0", *where)
        ranks[name] = firewall.end(plain, "rank", cover, "1", *where)
    for port in ("5000", "5001", "5002"):
        firewall.end(firewall.server, "serve", port).ready()
    ends = {
        "alone": firewall.end(plain, "talk", "none", SERVER, "5000"),
        "sysctl": firewall.end(by_sysctl, "talk", "none", SERVER, "5000"),
        "sysctl and flag": firewall.end(by_sysctl, "talk", "flag", SERVER, "5000"),
        "long interval": firewall.end(plain, "talk", "idle", SERVER, "5000"),
        "hold": firewall.end(plain, "talk", "hold", SERVER, "5000"),
        "cover from outside": firewall.end(plain, "talk", "none", SERVER, "5000"),
        "short outage": firewall.end(plain, "talk", "hold", SERVER, "5001", "5"),
        "long outage": firewall.end(plain, "talk", "hold", SERVER, "5002", "5"),
    } | ranks
    return {name: end.ready() for name, end in ends.items()}


def test_an_idle_connection_is_forgotten(fates: Fates) -> None:
    """Without linkhold the first word after the silence meets a reset: the test can fail."""
    assert fates["alone"] == {"socket": "dead"}


def test_sysctls_alone_do_not_help(fates: Fates) -> None:
    """A keepalive time of 1 s by sysctl keeps only sockets that have SO_KEEPALIVE."""
    assert fates["sysctl"] == {"socket": "dead"}
    assert fates["sysctl and flag"] == {"socket": "alive"}


def test_the_interval_counts_as_well(fates: Fates) -> None:
    """Probed after 1 s but then, by the sysctl's interval, 75 s later: too late for the second."""
    assert fates["long interval"] == {"socket": "dead"}


@pytest.mark.parametrize("by", ["hold", "cover from outside"])
def test_a_covered_connection_lives(fates: Fates, by: str) -> None:
    """By the client in its process, or by the agent from outside."""
    assert fates[by] == {"socket": "alive"}


@pytest.mark.skipif(bool(NO_TORCH), reason=NO_TORCH)
@pytest.mark.parametrize(
    ("name", "fate"),
    [("torch alone", "dead"), ("torch with hold", "alive"), ("torch from outside", "alive")],
)
def test_store_and_gloo_as_they_come(fates: Fates, name: str, fate: str) -> None:
    """Torch's TCPStore and Gloo die in the firewall; covered at one end, both live."""
    assert fates[name] == {"store": fate, "gloo": fate}


def test_keepalive_survives_what_it_promises(fates: Fates) -> None:
    """An outage below interval x (probes - 1) ends no idle connection; one above all does."""
    assert Timers(1, 1, 5).least_survived_s > SHORT_S
    assert Timers(1, 1, 5).most_survived_s < LONG_S
    assert fates["short outage"] == {"socket": "alive"}
    assert fates["long outage"] == {"socket": "dead"}
