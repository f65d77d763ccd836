"""Which sockets get keepalive, with which values, and what is remembered of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.actuators.cover_record import FILE, Original, Record
from linkhold.actuators.journal import boot_id
from linkhold.client import Hold
from linkhold.client.cover import wanted_idle_s
from linkhold.client.settings import Settings, addresses, given_timers
from linkhold.config.keepalive import CoverSettings
from linkhold.decide import cover
from linkhold.decide.cover import Holder
from linkhold.model.cover import Exclusions, Outcome, TcpSocket, judge, plain, timers_for
from linkhold.model.keepalive import Timers

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.decide.cover import Known

WANT = timers_for(None)
PRESENT = Timers(7200, 75, 9)


def tcp(
    local: str = "10.0.0.1", remote: str = "10.0.0.2", *, on: bool = False, limit_ms: int = 0
) -> TcpSocket:
    """Return a connection to port 29500."""
    return TcpSocket(local, 40000, remote, 29500, on, limit_ms, PRESENT)


@pytest.mark.parametrize(
    ("socket", "outcome"),
    [
        (tcp(), Outcome.COVERED),
        (tcp("2001:db8::1", "2001:db8::2"), Outcome.COVERED),
        (tcp("127.0.0.1", "127.8.9.1"), Outcome.LOCAL),
        (tcp("::1", "::1"), Outcome.LOCAL),
        (tcp("10.0.0.1", "10.0.0.1"), Outcome.LOCAL),
        (tcp(on=True), Outcome.OWN),
        (tcp(limit_ms=20_000), Outcome.OWN),
        (tcp(remote="10.9.9.9"), Outcome.EXCLUDED),
    ],
)
def test_which_sockets(socket: TcpSocket, outcome: Outcome) -> None:
    """What leaves the machine and has no setting of its own is covered, nothing else."""
    assert outcome is judge(socket, Exclusions(frozenset(), frozenset({"10.9.9.9"})))


@pytest.mark.parametrize("port", [40000, 29500])
def test_excluded_ports_count_at_both_ends(port: int) -> None:
    """A port excludes what is connected from it as well as to it."""
    assert Outcome.EXCLUDED is judge(tcp(), Exclusions(frozenset({port})))


def test_cover_outlives_two_hours_and_probes_often_enough() -> None:
    """Cover ends no connection in an outage of two hours, and keeps within the idle time."""
    assert Timers(60, 60, 127) == timers_for(None)
    assert timers_for(None).least_survived_s > 7200
    assert Timers(600, 60, 127) == timers_for(600)
    # A probe that is answered makes the kernel wait for the interval, not for the idle time.
    assert Timers(20, 20, 127) == timers_for(20)
    assert timers_for(10**9).time_s == 32767
    assert timers_for(-5).time_s == 1


def test_addresses_are_compared_as_the_kernel_shows_them() -> None:
    """IPv4 mapped into IPv6 is IPv4, and any spelling of an address means the same peer."""
    settings = Settings(cover_exclude_peers=addresses(["2001:DB8:0::9", "::ffff:10.9.9.9"]))

    assert frozenset({"2001:db8::9", "10.9.9.9"}) == settings.exclusions.peers
    assert plain("fe80::1%eth0") == "fe80::1"
    found = cover.exclusions(CoverSettings(exclude_ports=("443",), exclude_peers=("10.9.9.9",)))
    assert Exclusions(frozenset({443}), frozenset({"10.9.9.9"})) == found


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"cover_exclude_ports": [70000]}, "cover_exclude_ports: 70000 is not 1 to 65535"),
        ({"cover_exclude_ports": ["x"]}, "cover_exclude_ports: 'x' is no whole number"),
        ({"cover_exclude_peers": ["node7"]}, "cover_exclude_peers: 'node7' is no IP address"),
        ({"cover_exclude_peers": "10.0.0.1"}, "cover_exclude_peers: write ['10.0.0.1']"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], error: str) -> None:
    """A mistake in connect() says which argument, its value and what is allowed."""
    with pytest.raises((TypeError, ValueError)) as caught:
        Hold.connect(run_dir="/nonexistent", wait_s=0, **arguments)

    assert str(caught.value).startswith(error)


def test_given_values_are_checked_and_completed() -> None:
    """What a program leaves out follows from what it gives; a fake Hold touches no socket."""
    assert given_timers(None, None, None) is None
    assert Timers(30, 30, 127) == given_timers(30, None, None)
    with pytest.raises(ValueError, match="probes: 128 is not 1 to 127"):
        Hold.fake().cover_sockets(probes=128)
    assert Hold.fake().cover_sockets(time_s=5) == {}


@pytest.mark.parametrize("detail", [None, {}, {"keepalive": None}, {"keepalive": {"wanted": []}}])
def test_a_state_without_keepalive_says_nothing(detail: Any) -> None:
    """An older agent, or one that manages nothing, leaves the default."""
    hold = Hold.fake()
    state = hold._fake.state
    object.__setattr__(state, "document", {"detail": detail})

    assert wanted_idle_s(state) is None
    object.__setattr__(state, "document", {"detail": {"keepalive": {"wanted": {"time_s": 75}}}})
    assert wanted_idle_s(state) == 75
    assert wanted_idle_s(None) is None


def holder(pid: int, *inodes: int, client: bool = False) -> Holder:
    """Return a process that holds these sockets."""
    links = [(3 + n, f"socket:[{inode}]") for n, inode in enumerate(inodes)]
    marks = [(2, "/memfd:linkhold-client (deleted)")] if client else []
    return Holder(pid, 1, "python", (*marks, *links, (99, "pipe:[7]")))


def test_only_what_is_new_is_looked_at() -> None:
    """Known sockets rest; unconnected ones and those with older values come again."""
    known: dict[int, Known] = {
        1: Outcome.LOCAL,
        2: WANT,
        3: Outcome.UNCONNECTED,
        4: Timers(9, 9, 9),
        8: WANT,
    }

    found = cover.tasks([holder(10, 1, 2, 3, 4, 5)], known, WANT)

    assert [(3, None), (4, Timers(9, 9, 9)), (5, None)] == [
        (task.inode, task.before) for task in found.tasks
    ]
    assert found.known == {1: Outcome.LOCAL, 2: WANT}
    assert cover.counts(found.known.values())["local"] == 1


def test_a_process_with_a_client_is_left_to_it() -> None:
    """Its sockets are the client's, also where a forked worker shares them; others are ours."""
    found = cover.tasks([holder(11, 1, 2), holder(10, 1, client=True)], {}, WANT)

    assert [task.inode for task in found.tasks] == [2]
    assert found.clients == (10,)


def test_originals_outlive_the_agent(tmp_path: Path) -> None:
    """What a socket had first is known to the next agent, with the values given last."""
    first = Original(10, 1, 5, PRESENT, WANT)
    Record(tmp_path).note([first])
    again = Record(tmp_path)
    again.note([Original(10, 1, 5, WANT, Timers(9, 9, 9))])

    assert (Original(10, 1, 5, PRESENT, Timers(9, 9, 9)),) == Record(tmp_path).originals
    again.replace([])
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"boot_id": 1}', "{", '{"boot_id": "other"}'])
def test_a_damaged_record_is_said_and_counts_as_none(tmp_path: Path, content: str) -> None:
    """Nothing is restored by guess; one of another boot is about sockets that are gone."""
    (tmp_path / FILE).write_text(content)
    record = Record(tmp_path)

    assert record.originals == ()
    other_boot = isinstance(_parsed(content), dict)
    assert bool(record.take_problems()) is not other_boot


@pytest.mark.parametrize("row", [[1 << 40, *[1] * 8], [-1, *[1] * 8], [*[1] * 8, 1 << 40]])
def test_a_record_of_impossible_numbers_is_damaged(tmp_path: Path, row: list[int]) -> None:
    """No process and no option of a socket has such a number: the kernel is not asked."""
    document = {"boot_id": boot_id(), "sockets": [row]}
    (tmp_path / FILE).write_text(json.dumps(document))

    assert "is damaged" in Record(tmp_path).take_problems()[0]


def _parsed(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None
