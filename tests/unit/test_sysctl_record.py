"""What was found before linkhold wrote a sysctl, kept on disk and put back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold.actuators.sysctls import Record, apply, restore, worded
from linkhold.model import HostError
from linkhold.model.keepalive import Values

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from linkhold.actuators.sysctls import Change

OTHER_KEY = (
    '{"boot_id": "x", "namespaces": {"7": {"name": "host", "keys": '
    '{"../../kernel/panic": {"found": 1, "written": 2}}}}}'
)
FOUND = Values(7, "host", {"tcp_keepalive_time": 7200, "tcp_keepalive_probes": 9})


class Kernel:
    """One namespace that takes what is written."""

    def __init__(self) -> None:
        self.now = FOUND

    def write(self, changes: Sequence[Change]) -> list[Values]:
        """Write, and return what is read back."""
        [(before, values)] = changes
        self.now = replace(before, values={**self.now.values, **values})
        return [self.now]

    def look(self, inode: int, _: str) -> Values | None:
        """Return what is there."""
        return self.now if inode == self.now.namespace else None


def test_what_was_written_is_put_back(tmp_path: Path) -> None:
    """After any number of writes a restore gives what was found at first, and forgets it."""
    kernel = Kernel()
    apply([(kernel.now, {"tcp_keepalive_time": 600})], kernel.write, tmp_path)
    apply([(kernel.now, {"tcp_keepalive_time": 300})], kernel.write, tmp_path)
    done = restore(kernel.look, kernel.write, tmp_path)

    assert kernel.now == FOUND
    assert dict(done[0].values) == {"tcp_keepalive_time": 7200}
    assert restore(kernel.look, kernel.write, tmp_path) == []
    assert not (tmp_path / "keepalive.json").exists()


def test_what_somebody_set_meanwhile_stays(tmp_path: Path) -> None:
    """A value that is not the one written any more is somebody's decision."""
    kernel = Kernel()
    apply([(kernel.now, {"tcp_keepalive_time": 600})], kernel.write, tmp_path)
    kernel.now = replace(kernel.now, values={**kernel.now.values, "tcp_keepalive_time": 1000})

    assert not restore(kernel.look, kernel.write, tmp_path)[0].values
    assert kernel.now.values["tcp_keepalive_time"] == 1000


def test_a_namespace_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    """There is nothing to put back where there is nothing."""
    apply([(FOUND, {"tcp_keepalive_time": 600})], Kernel().write, tmp_path)

    assert restore(lambda *_: None, Kernel().write, tmp_path) == []
    assert Record.load(tmp_path).namespaces == {}


def test_namespaces_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    """The record holds those that are there, so a node of short-lived pods does not fill it."""
    kernel = Kernel()
    for inode in range(1, 4):
        apply(
            [(replace(FOUND, namespace=inode), {"tcp_keepalive_time": 600})], kernel.write, tmp_path
        )
        Record.load(tmp_path).keep({inode, 99})

    assert list(Record.load(tmp_path).namespaces) == ["3"]
    Record.load(tmp_path).keep(())
    assert not (tmp_path / "keepalive.json").exists()


def test_a_drift_is_repaired_on_a_full_disk(tmp_path: Path) -> None:
    """What is known already is not written again, so nothing stands in the way of the repair."""
    kernel = Kernel()
    apply([(kernel.now, {"tcp_keepalive_time": 600})], kernel.write, tmp_path)
    inode = (tmp_path / "keepalive.json").stat().st_ino
    kernel.now = replace(kernel.now, values={**kernel.now.values, "tcp_keepalive_time": 7000})
    apply([(kernel.now, {"tcp_keepalive_time": 600})], kernel.write, tmp_path)

    assert kernel.now.values["tcp_keepalive_time"] == 600
    assert (tmp_path / "keepalive.json").stat().st_ino == inode


def test_a_namespace_that_was_not_seen_is_not_forgotten(tmp_path: Path) -> None:
    """What could not be put back now can be put back later; only what was set back is told."""
    kernel = Kernel()
    apply([(FOUND, {"tcp_keepalive_time": 600})], kernel.write, tmp_path)
    hidden = Values(7, "host", {}, "not seen")
    done = restore(lambda *_: hidden, kernel.write, tmp_path)

    assert [(one.problem, dict(one.values)) for one in done] == [("not seen", {})]
    assert restore(kernel.look, kernel.write, tmp_path)[0].values == {"tcp_keepalive_time": 7200}


def test_nothing_is_written_when_the_disk_takes_no_record(tmp_path: Path) -> None:
    """What cannot be undone is not done."""
    kernel = Kernel()
    (tmp_path / "full").write_text("")  # a file where the folder should be

    with pytest.raises(HostError, match="full"):
        apply([(kernel.now, {"tcp_keepalive_time": 600})], kernel.write, tmp_path / "full")
    assert kernel.now == FOUND


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"boot_id": 1, "namespaces": {}}', '{"boot_id": "x"}',
             '{"boot_id": "x", "namespaces": {"7": {"name": "host", "keys": {"a": {}}}}}',
             '{"boot_id": "x", "namespaces": {"7": {"name": "host", "keys": 3}}}',
             '{"boot_id": "x", "namespaces": {"a": {"name": "host", "keys": {}}}}',
             OTHER_KEY]
)  # fmt: skip
def test_a_damaged_record_is_said_to_be_damaged(tmp_path: Path, text: str) -> None:
    """With file and remedy, and it is left for a person to look at."""
    (tmp_path / "keepalive.json").write_text(text)

    with pytest.raises(HostError, match=r"keepalive\.json is damaged.*remove it"):
        restore(lambda *_: FOUND, Kernel().write, tmp_path)
    assert (tmp_path / "keepalive.json").read_text() == text


def test_one_trouble_of_several_values_is_said_once() -> None:
    """A line for a person is no place for the same sentence three times."""
    errors = {"a": "read-only", "b": "read-only", "c": "refused"}

    assert worded(errors) == "net.ipv4.a, net.ipv4.b: read-only; net.ipv4.c: refused"


def test_a_record_of_another_boot_counts_for_nothing(tmp_path: Path) -> None:
    """A boot sets every sysctl anew: what was found before it is of no use."""
    text = (
        '{"boot_id": "other", "namespaces": {"7": {"name": "host", "keys": '
        '{"tcp_keepalive_time": {"found": 7200, "written": 600}}}}}'
    )
    (tmp_path / "keepalive.json").write_text(text)

    assert Record.load(tmp_path).namespaces == {}
