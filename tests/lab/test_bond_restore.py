"""``linkhold restore`` after a bond of somebody's was adjusted: it becomes what it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import furnish, host_state
from support.bond_change import Host
from support.lab import Box, scenario

if TYPE_CHECKING:
    from support.lab.host import Lab

LINKHOLD = str(Path(sys.executable).parent / "linkhold")


@scenario(timeout_s=120)
def adjusted_and_restored(box: Box) -> dict[str, Any]:
    """Adjust a bond of eth1 alone, with other options, and take it back."""
    net = box.two_switches()
    furnish.quiet_dad()
    net.make_bond(miimon_ms=100, members=("eth1",), num_grat_arp=1, updelay=200)
    furnish.settle()
    host = Host(box.tmp)
    before = host_state.take()
    with net.probe(rate_hz=200) as probe:
        made = host.apply(brief=True)
        words = [LINKHOLD, "restore", "--yes"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return {
        "made": [made.code, made.said],
        "done": [done.returncode, done.stdout + done.stderr],
        "lost": probe.traffic.lost,
        "left": host_state.wait_equal(before),
    }


def test_adjusted_bond_is_given_back_and_not_removed(lab: Lab) -> None:
    """Options and members of before are there again, nothing is lost, and the bond stays."""
    value = lab.run(adjusted_and_restored).value

    assert value["made"][0] == 0, value["made"]
    assert value["done"][0] == 0, value["done"]
    assert "others made it, so it stays" in value["done"][1]
    assert value["lost"] == 0
    assert value["left"] == []
