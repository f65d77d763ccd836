"""``linkhold bond test``: whether it really moved, and who is blamed when it may not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.cli import bond_test
from linkhold.model.survey import Answer, Known

if TYPE_CHECKING:
    from pathlib import Path

PASSED = {"moved": True, "stayed": True, "stayed_s": 2.0, "returned": True, "problems": []}


@pytest.fixture
def active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's file that names the active member of bond0."""
    monkeypatch.setattr(bond_test, "SYSFS", tmp_path)
    file = tmp_path / "bond0/bonding/active_slave"
    file.parent.mkdir(parents=True)
    file.write_text("eth1\n")
    return file


def test_a_standby_that_carries_to_the_end_has_passed(active: Path) -> None:
    """It is looked at all the time, not only at the end."""
    there = bond_test.Stay("bond0", "eth1", at_most_s=0.1)
    there.watch()

    assert (there.moved, there.stayed) == (True, True)
    assert there.stayed_s >= 0.1


def test_a_bond_that_was_not_moved_has_not_been_tested(active: Path) -> None:
    """The old member carries on, or the bond is gone: neither is a pass."""
    active.write_text("eth0\n")
    there = bond_test.Stay("bond0", "eth1")
    there.watch()
    gone = bond_test.Stay("bond7", "eth1")
    gone.watch()

    assert (there.moved, there.stayed, gone.moved) == (False, False, False)


def test_a_move_that_is_taken_back_is_noticed(active: Path) -> None:
    """Whoever moves the bond meanwhile spoils the test, and it says when."""
    there = bond_test.Stay("bond0", "eth1", at_most_s=5)
    back = threading.Timer(0.2, lambda: active.write_text("eth0\n"))
    back.start()
    there.watch()
    back.join()

    assert (there.moved, there.stayed) == (True, False)
    assert 0.1 < there.stayed_s < 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"moved": False, "stayed": False}, "was never moved to eth1"),
        ({"stayed": False, "stayed_s": 0.4}, "carried for 0.4 s only"),
        ({"returned": False}, "did not return to eth0"),
        ({"problems": ["it hung"]}, "it hung"),
    ],
)
def test_only_a_whole_test_passes(
    capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    """Anything else is a failure, in words and in the exit code."""
    outcome = {**PASSED, "bond": "bond0", "from": "eth0", "to": "eth1", "active": "eth0", **changes}
    bond_test._show({**outcome, "target": None})

    assert bond_test._passed(outcome) == (not changes)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("over_active", "blamed", "spared"),
    [
        (Known.NO, "it is not eth1 that is at fault", "VLAN"),
        (Known.YES, "check the switch port and VLAN of eth1", "at fault"),
        (Known.UNKNOWN, "check the switch port and VLAN of eth1", "at fault"),
    ],
)
def test_a_dead_gateway_is_not_blamed_on_the_standby(
    monkeypatch: pytest.MonkeyPatch, over_active: Known, blamed: str, spared: str
) -> None:
    """The standby is at fault only when the same host answers through the active member."""
    monkeypatch.setattr(bond_test, "ask", lambda name, *_, **__: Answer(over_active, name))
    text = bond_test._silence("bond0", "eth0", "eth1", ("10.0.0.1",))

    assert blamed in text
    assert spared not in text
