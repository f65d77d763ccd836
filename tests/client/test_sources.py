"""The two sources of states alone: what a frozen broker and an odd file do to them."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from client.conftest import Broker, until
from linkhold.client import sources
from linkhold.client.sources import BrokerSource, FileSource

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_frozen_broker_is_never_waited_for(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that accepts nobody, or whose backlog is full, costs a try and never blocks."""
    monkeypatch.setattr(sources, "CONNACK_S", 0.2)
    path = run_dir / "mute.sock"
    counted: list[str] = []
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen(0)
        source = BrokerSource(counted.append)
        source.connect(path, time.monotonic_ns())
        assert source.open
        while source.open:
            source.poll(0.05, time.monotonic_ns())

        began_s = time.monotonic()
        source.connect(path, time.monotonic_ns() + 10**12)
        assert not source.open
        assert time.monotonic() - began_s < 1
    assert counted == ["connects", "connects"]


def test_pauses_grow_and_a_new_broker_ends_them(run_dir: Path) -> None:
    """A socket that refuses is tried ever less often; another socket in its place at once."""
    path = run_dir / "dead.sock"
    tries: list[str] = []
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    source, now_ns = BrokerSource(tries.append), 0
    while now_ns < 60e9:
        source.connect(path, now_ns)
        now_ns += 50_000_000
    assert 10 < len(tries) < 80

    path.rename(run_dir / "away")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    before = len(tries)
    source.connect(path, now_ns)
    assert len(tries) == before + 1


def test_silent_connection_is_made_anew(
    broker: Broker, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that carries no state is given up after a while."""
    monkeypatch.setattr(sources, "SILENT_S", 0.3)
    source = BrokerSource(lambda _name: None)
    source.connect(broker.socket, time.monotonic_ns())

    def silent() -> bool:
        source.poll(0.02, time.monotonic_ns())
        return not source.open

    assert until(silent, 3)


def test_file_is_read_when_it_changes(tmp_path: Path) -> None:
    """The same file is read once; another, an equally long one too, is read again."""
    path, source = tmp_path / "state.json", FileSource()
    assert source.read(path) is None
    for content in (b"one", b"two"):
        draft = tmp_path / "draft"
        draft.write_bytes(content)
        draft.replace(path)
        assert source.read(path) == content
        assert source.read(path) is None


def test_file_that_is_none(tmp_path: Path) -> None:
    """A pipe or folder of that name is not opened, and a huge file is cut."""
    pipe, big = tmp_path / "pipe", tmp_path / "big"
    os.mkfifo(pipe)
    big.write_bytes(b" " * (sources.MAX_FILE_BYTES + 5))

    assert FileSource().read(pipe) is None
    assert FileSource().read(tmp_path) is None
    assert len(FileSource().read(big) or b"") == sources.MAX_FILE_BYTES
