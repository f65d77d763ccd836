"""What ``linkhold bond status`` says of protection: links, monitoring, and what probes found."""

from __future__ import annotations

from typing import Any

import pytest

from linkhold.cli import bond_health

GOOD = {"good": True, "admin_up": True}
LOST = {"good": False, "admin_up": True}


def bond(eth0: dict[str, Any] = GOOD, eth1: dict[str, Any] = GOOD, miimon: int = 50) -> Any:
    """Return a bond as the kernel shows it."""
    members = {"eth0": eth0, "eth1": eth1}
    options = {"miimon": miimon, "arp_interval": 0}
    head = {"name": "bond0", "active": "eth0", "monitored": bool(miimon)}
    return {**head, "members": members, "options": options}


def dead(name: str) -> bond_health.Known:
    """Return what an agent says that found one path dead."""
    path = {"path": "dead", "path_reason": "no answer from 10.0.0.1 through it"}
    return {"bond0": {"silent": None, "members": {name: path}}}


@pytest.mark.parametrize(
    ("made", "known", "line"),
    [
        (bond(), {}, "eth0 carries, protected"),
        (bond(miimon=5000), {}, "eth0 carries, protected"),
        (bond(miimon=0), {}, "eth0 carries, NOT protected: no link monitoring, it never fails"),
        (bond(miimon=100_000), {}, "only after up to 100 s (miimon 100000; 50 to 100 is usual)"),
        (bond(eth1=LOST), {}, "eth0 carries, NOT protected: 1 of 2 members work"),
        (bond(eth0=LOST, miimon=0), {}, "nothing carries (eth0 is the active member, and has no"),
        (bond(), dead("eth1"), "eth0 carries, NOT protected: 1 of 2 members work"),
        (bond(), dead("eth0"), "nothing comes back through eth0, the active member, NOT"),
        (
            bond(),
            {"bond0": {"silent": "10.0.0.1 does not answer", "members": {}}},
            "eth0 carries, but 10.0.0.1 does not answer through any member, protected",
        ),
    ],
)
def test_status_says_whether_a_bond_protects_and_why_not(
    made: Any, known: bond_health.Known, line: str
) -> None:
    """Monitoring that is off or in the wrong unit protects from nothing; nor does a dead path."""
    shown = bond_health.judged(made, known)

    assert line in bond_health.headline(shown)
    assert shown["redundant"] == bond_health.headline(shown).endswith(", protected")


def test_a_dead_standby_is_shown_with_its_reason() -> None:
    """Its link is fine, so `good` would be a lie."""
    members = bond_health.judged(bond(), dead("eth1"))["members"]

    assert [bond_health.member_state(one) for one in members.values()] == [
        "good",
        "NO ANSWER (no answer from 10.0.0.1 through it)",
    ]
