"""Lines of each family of drivers, made from the kernel's formats, and what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkhold.decide.kernel_log import classify

LINES = Path(__file__).parent / "kernel_log"


def _lines(name: str) -> list[str]:
    return (LINES / name).read_text().splitlines()


def _rows(name: str) -> list[tuple[str, str, str]]:
    """Read lines of class, interface and message."""
    rows = [line.split("|", 2) for line in _lines(name)]
    return [(cls, interface, line) for cls, interface, line in rows]


@pytest.mark.parametrize(("cls", "interface", "line"), _rows("faults.txt"))
def test_a_line_of_a_driver_is_told_by_its_family(cls: str, interface: str, line: str) -> None:
    """Each format of a NIC driver has its class, and the interface that the line names."""
    finding = classify(line)

    assert (cls, interface) == (finding.cls.value, finding.interface), finding.why


@pytest.mark.parametrize(("cls", "interface", "line"), _rows("bonds.txt"))
def test_a_line_of_the_bonding_driver_names_member_or_bond(
    cls: str, interface: str, line: str
) -> None:
    """Both generations of texts are known; a member's line means the member, others the bond."""
    finding = classify(line)

    assert (cls, interface, "bonding") == (finding.cls.value, finding.interface, finding.driver)


@pytest.mark.parametrize("line", _lines("silence.txt"))
def test_what_is_no_fault_of_a_nic_is_none(line: str) -> None:
    """Notices of NIC drivers, and faults of other devices, are none."""
    finding = classify(line)

    assert finding.cls.value == "none", finding.why
