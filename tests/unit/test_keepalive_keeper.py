"""Namespaces of keepalive that end or cannot be visited, looks that hang, and what is printed."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.actuators import namespaces
from linkhold.cli import keepalive_apply, main, status
from linkhold.config import Settings
from linkhold.config.keepalive import Namespaces
from linkhold.daemon.connections import Connections
from linkhold.daemon.keepalive import Turn
from linkhold.model import Unavailable
from linkhold.model.keepalive import Values
from linkhold.survey.inside import Visited
from linkhold.survey.namespaces import Namespaces as Found
from linkhold.survey.namespaces import NetNamespace

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.survey.inside import Visit

HOST = Values(1, "host", {"tcp_keepalive_time": 7200})
PLACES = tuple(NetNamespace(inode, f"/proc/{inode}/ns/net", f"n{inode}") for inode in (1, 7, 8))


class Helper:
    """A host with the namespaces 1 (its own), 7, which ends while it is visited, and 8."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.broken = False
        patch.setattr("linkhold.actuators.sysctls.read", lambda: HOST)
        patch.setattr("linkhold.actuators.sysctls.own_namespace", lambda: 1)
        patch.setattr("linkhold.survey.namespaces.find", lambda _: Found(PLACES))
        patch.setattr("linkhold.survey.inside.visit", self.visit)

    def visit(self, visits: list[Visit], _: float) -> list[Visited]:
        """Answer as the helper process does."""
        if self.broken:
            raise Unavailable("the helper is stuck")
        values = {"tcp_keepalive_time": 7200}
        return [
            Visited(one.inode, one.path, "gone" if one.inode == 7 else "", {**values, **one.write})
            for one in visits
        ]


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Helper:
    """A helper that answers."""
    return Helper(monkeypatch)


def test_a_namespace_that_ends_meanwhile_is_no_trouble(helper: Helper) -> None:
    """One that is gone at the look is left out, one that is gone at the write says nothing."""
    host = namespaces.look(Namespaces.ALL)
    ended = Values(7, "n7", {"tcp_keepalive_time": 7200})
    wrote = namespaces.write_in(host.places)(
        [(one, {"tcp_keepalive_time": 600}) for one in (ended, host.values[1])]
    )

    assert [one.namespace for one in host.values] == [1, 8]
    assert not host.unseen
    assert [(one.values["tcp_keepalive_time"], one.error) for one in wrote] == [
        (7200, ""),
        (600, ""),
    ]


def test_a_stuck_helper_does_not_keep_the_hosts_own_values_waiting(helper: Helper) -> None:
    """They are looked at all the same, and that the others were not is said."""
    helper.broken = True
    host = namespaces.look(Namespaces.ALL, {8: Values(8, "n8", {})})

    assert [one.namespace for one in host.values] == [1, 8]
    assert host.unseen == "the helper is stuck"


def test_a_look_that_hangs_costs_one_thread() -> None:
    """Who comes later waits, in vain, and starts no thread of his own; then it is his turn."""

    async def scene() -> str:
        turn, held = Turn(), threading.Event()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(turn.take(held.wait), 0.05)
        before = threading.active_count()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(turn.take(lambda: "late"), 0.1)
        assert threading.active_count() == before
        held.set()
        return await asyncio.wait_for(turn.take(lambda: "done"), 5)

    assert asyncio.run(scene()) == "done"


def test_what_cannot_be_uncovered_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again in each round, and logged when it is news."""

    class Stuck:
        restored, problems = 0, ("process 7: refused",)

        def __init__(self, _: Path) -> None: ...

        def restore(self) -> Stuck:
            return self

    monkeypatch.setattr("linkhold.daemon.connections.Cover", Stuck)
    (tmp_path / "cover.json").write_text("{}")
    connections = Connections(tmp_path, _audited_ns=1 << 62)
    monkeypatch.setattr("linkhold.daemon.log.log.propagate", True)
    for _ in range(3):
        connections.look(Settings(), None)

    assert caplog.messages == ["cover: process 7: refused"]


def test_what_was_written_is_said_although_one_value_was_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The one that failed is named; the others are not called undone."""
    before = Values(1, "host", {"tcp_retries2": 15, "tcp_syn_retries": 6})
    after = Values(1, "host", {"tcp_retries2": 15, "tcp_syn_retries": 9}, "tcp_retries2: refused")
    write = {"tcp_retries2": 20, "tcp_syn_retries": 9}
    keepalive_apply._show([keepalive_apply._document(before, write, after)], "apply")
    shown = capsys.readouterr().out

    assert shown == "net.ipv4.tcp_syn_retries: 6 -> 9\nnot done: tcp_retries2: refused\n"
    stuck = {"name": "covered sockets", "written": {"sockets": 2}, "problem": "refused"}
    keepalive_apply._show([stuck], "restore")
    assert "2 covered sockets have their old values again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"enforced": False}, "(mode observe; see: linkhold keepalive plan); n8: refused"),
        ({"enforced": True}, "survive 10 min; wanted 600/60/20 (not written); n8: refused"),
        (
            {"enforced": True, "drifts": [{"conflict": True}]},
            "(somebody sets it back); n8: refused",
        ),
        ({"present": None}, "keepalive: n8: refused"),
    ],
)
def test_a_trouble_hides_nothing_of_the_status(seen: dict[str, Any], said: str) -> None:
    """What is there and why it is not as wanted is said beside what went wrong."""
    line = status._keepalive({
        "profile": "default",
        "present": {"time_s": 7200, "interval_s": 75, "probes": 9},
        "wanted": {"time_s": 600, "interval_s": 60, "probes": 20},
        "enough": False,
        "drifts": [],
        "connections": None,
        "error": "n8: refused",
        **seen,
    })  # fmt: skip

    assert line.endswith(said)


@pytest.mark.parametrize("words", ["keepalive plan --config /no/such", "survive --pid 4194305"])
def test_programs_are_told_of_a_failure(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json an error is a document too."""
    assert main([*words.split(), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["text"]


def test_what_is_no_longer_covered_is_audited_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count of unprotected connections must not be that of five minutes ago."""

    class Covered:
        restored, problems = 3, ()

        def __init__(self, _: Path) -> None: ...

        def restore(self) -> Covered:
            (tmp_path / "cover.json").unlink()
            return self

    monkeypatch.setattr("linkhold.daemon.connections.Cover", Covered)
    looks: list[int] = []

    def audit(*_: object) -> tuple[()]:
        looks.append(1)
        return ()

    monkeypatch.setattr(Connections, "_audit", audit)
    connections = Connections(tmp_path, _audited_ns=time.monotonic_ns())
    connections.look(Settings(), None)
    assert not looks
    (tmp_path / "cover.json").write_text("{}")
    connections.look(Settings(), None)
    connections.look(Settings(), None)

    assert len(looks) == 1
