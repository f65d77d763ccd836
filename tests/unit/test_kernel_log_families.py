"""Lines of each family of drivers, made from the kernel's formats, and what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkhold.decide.incidents import OPENING
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


NAMES = (
    "NETDEV WATCHDOG",
    "mlx5_core 0000:",
    "igb 0000:01:00.",
    "eth0: NIC Link ",
    "bond0: (slave e",
)
"""Names of programs that begin as lines of drivers do; the kernel keeps 15 bytes of one."""
BY_USERS = (
    "{}[4711]: segfault at 0 ip 000055d0 sp 00007ffc error 4 in x[55d0+1000]",
    "traps: {}[4711] trap divide error ip:4005 sp:7ffc error:0 in x[400000+1000]",
    "{}: page allocation failure: order:5, mode:0x40dc0(GFP_KERNEL|__GFP_COMP)",
    "process '{}/eth0: transmit queue 0 timed out' started with executable stack",
    'overlayfs: unrecognized mount option "{} eth0 (igb): transmit queue 0 timed out"',
    "input: {} 0000:01:00.0 eth0: Reset adapter as /devices/virtual/input/input5",
    "INFO: task {}:4711 blocked for more than 120 seconds.",
)
IN_NAMESPACES = (
    "bond0: (slave eth0): link status definitely down, disabling slave",
    "bond0: now running without any active interface!",
    "bond0: (slave eth0): failed to get link speed/duplex",
    "unregister_netdevice: waiting for eth0 to become free. Usage count = 1",
)
"""What the kernel says of interfaces in any namespace, whose owner chose their names."""


def test_no_user_opens_an_incident_by_a_name() -> None:
    """Lines that users can have the kernel write: none of a NIC, or none that opens an incident."""
    for line in [text.format(name) for text in BY_USERS for name in NAMES]:
        assert classify(line).cls.value == "none", line
    assert not OPENING & {classify(line).cls for line in IN_NAMESPACES}
