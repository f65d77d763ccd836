"""Every fault that the diagnosis is to find is made somewhere, with real packets or in a guest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FIRST_HOP = "kernel/test_diagnose.py"
MORE = "kernel/test_diagnose_more.py"
BOND = "lab/test_diagnose_bond.py"
HOST = "lab/test_diagnose_host.py"
AGENT = "agent/test_diagnose.py"

MADE = {
    # What somebody types commands for at three in the morning.
    "healthy host": (FIRST_HOP, "healthy"),
    "cable": (FIRST_HOP, "cable"),
    "NIC set down": (FIRST_HOP, "set_down"),
    "switch dead": (FIRST_HOP, "switch_dead"),
    "gateway dead": (FIRST_HOP, "gateway_dead"),
    "everything beyond the gateway dead": (FIRST_HOP, "beyond_dead"),
    "wrong netmask": (FIRST_HOP, "wide_mask"),
    "wrong subnet": (FIRST_HOP, "other_subnet"),
    "duplicate address": (FIRST_HOP, "duplicate"),
    "MTU black hole": (FIRST_HOP, "black_hole"),
    "MTU of the switch": (MORE, "switch_mtu"),
    "DNS dead": (FIRST_HOP, "dns_dead"),
    "DNS dead, target by name": (MORE, "no_name"),
    "one resolver dead": (MORE, "one_resolver"),
    "default route gone": (FIRST_HOP, "route_gone"),
    "one leg of the bond dead": (BOND, "standby cable"),
    "switch behind the standby dead": (BOND, "standby switch"),
    "switch behind the active member dead": (BOND, "active switch"),
    "member taken out by a manager": (BOND, "member taken out"),
    "members set down": (BOND, "members set down"),
    "miimon 0": (BOND, "miimon 0"),
    "miimon 0 and the cable out": (BOND, "active cable, miimon 0"),
    "neighbour table full": (HOST, "neighbour table full"),
    "conntrack full": (HOST, "conntrack full"),
    "firewall drops": (FIRST_HOP, "own_firewall"),
    "metadata gone": (FIRST_HOP, "metadata_gone"),
    "metadata lying": (FIRST_HOP, "metadata_lies"),
    "clock wrong": (HOST, "clock wrong"),
    "service refuses": (MORE, "refused"),
    "peer reads nothing": (MORE, "reads_nothing"),
    "cable out under other faults": (MORE, "cable_and_more"),
    "gateway dead under other faults": (MORE, "gateway_and_more"),
    # Lines of several drivers through the reader of the kernel's log.
    "kernel lines: ena": (HOST, "ena driver"),
    "kernel lines: ixgbe": (HOST, "ixgbe driver"),
    "kernel lines: mlx5 firmware": (HOST, "mlx5 firmware"),
    "kernel lines: mlx5 module": (HOST, "mlx5 module"),
    "kernel lines: igb": (HOST, "card off the bus"),
    "kernel lines: soft lockup": (HOST, "processor stuck in a driver"),
    "kernel lines: bonding, by the driver itself": (HOST, "link flaps"),
    # The families of outages: interconnect, power, time-outs, heartbeats, software, rules.
    "oxidised contact or bent fibre": (MORE, "bad_contact"),
    "switch power": (MORE, "switch_power"),
    "session forgotten by a firewall": (MORE, "session_forgotten"),
    "idle SSH cut": (MORE, "idle_ssh"),
    "nothing keeps training's connections": (MORE, "unprotected"),
    "heartbeats lost": (AGENT, "heartbeats lost"),
    "agent hangs": (AGENT, "agent hangs"),
    "address of a load balancer changed": (FIRST_HOP, "moved"),
    "virtual NIC driver crashed": (HOST, "virtual NIC driver crashed"),
    "security rule deleted": (FIRST_HOP, "rule_deleted"),
}
"""By fault: the file whose table ``FAULTS`` says what must come out, and its name there."""
WANTED = (
    "cable", "switch dead", "gateway dead", "wrong netmask", "duplicate address", "MTU black hole",
    "DNS dead", "default route gone", "one leg of the bond dead", "miimon 0",
    "neighbour table full", "conntrack full", "firewall drops", "metadata gone", "metadata lying",
    "clock wrong", "oxidised contact or bent fibre", "switch power",
    "session forgotten by a firewall", "idle SSH cut", "heartbeats lost",
    "address of a load balancer changed", "virtual NIC driver crashed", "security rule deleted",
    "healthy host",
)  # fmt: skip


def table_of(file: str) -> set[str]:
    """Return the names in a file's table of faults, without running any of it."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == "FAULTS":
            keys = getattr(getattr(node, "value", None), "keys", ())
            return {key.id if isinstance(key, ast.Name) else key.value for key in keys}
    raise AssertionError(f"{file} has no table FAULTS")


@pytest.mark.parametrize("file", [FIRST_HOP, MORE, BOND, HOST, AGENT])
def test_each_fault_is_made_where_the_table_says(file: str) -> None:
    """And nothing is made that the table does not name."""
    named = {name for where, name in MADE.values() if where == file}

    assert table_of(file) - {"healthy"} == named - {"healthy"}


def test_no_wanted_fault_is_left_out() -> None:
    """All that is wanted is made, and lines of at least three drivers; 25 faults at least."""
    drivers = [name for name in MADE if name.startswith("kernel lines: ")]

    assert [name for name in WANTED if name not in MADE] == []
    assert len(drivers) >= 3
    assert len(MADE) - 1 >= 25
