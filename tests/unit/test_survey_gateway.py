"""What a question to a gateway says when it cannot be put, from which MAC, and what it loads."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linkhold.model.survey import Known
from linkhold.survey import gateway
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("interface", "targets", "reason"),
    [
        ("lo", ["10.0.0.999"], "no IP address"),
        ("lo", [], "no address to ask"),
        ("gone0", ["10.0.0.1"], "gone0"),
        ("", ["10.0.0.1"], "no name"),
        ("a-name-that-is-far-too-long", ["10.0.0.1"], "no name"),
    ],
)
def test_what_cannot_be_asked(interface: str, targets: list[str], reason: str) -> None:
    """Mistakes are unknown with a reason, never an exception."""
    answer = ask(interface, targets, timeout_s=0.1)

    assert answer.verdict is Known.UNKNOWN
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("state", "perm", "bond", "expected"),
    [
        ("active", "0c:42:a1:00:00:01", "0c:42:a1:00:00:01", "0c:42:a1:00:00:01"),
        ("backup", "0c:42:a1:00:00:02", "0c:42:a1:00:00:01", "0c:42:a1:00:00:02"),
        ("backup", "0c:42:a1:00:00:01", "0c:42:a1:00:00:01", "0e:42:a1:00:00:01"),
    ],
)
def test_mac_of_a_port(  # the bond's own address from a backup port would mislead the switches
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, perm: str, bond: str, expected: str
) -> None:
    """A port asks from its burned-in address, and never from the one that is in use elsewhere."""
    port = tmp_path / "eth1"
    for name, text in {
        "bonding_slave/state": state,
        "bonding_slave/perm_hwaddr": perm,
        "master/address": bond,
    }.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(text + "\n")
    monkeypatch.setattr(gateway, "SYS_NET", tmp_path)

    assert gateway._port_mac("eth1") == expected
    assert gateway._port_mac("eth2") == ""


def test_the_guard_loads_little() -> None:
    """The guard's part brings in nothing but the standard library and linkhold's own."""
    code = (
        "import sys; before = set(sys.modules);"
        "import linkhold.survey.gateway, linkhold.actuators.announce;"
        "names = {m.split('.')[0] for m in set(sys.modules) - before};"
        "print(*sorted(names - set(sys.stdlib_module_names) - {'linkhold'}));"
        "print(*(m for m in ('asyncio', 'ctypes', 'yaml', 'logging') if m in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.split() == []
