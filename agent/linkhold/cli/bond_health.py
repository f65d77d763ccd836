"""How well a bond protects, for ``linkhold bond status``: links, monitoring and what probes found.

A running agent knows which paths are dead behind a live link; without one that is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.cli.shown import find_state
from linkhold.decide.bond_paths import ENOUGH_FOR_REDUNDANCY, SLOW_MS
from linkhold.paths import find_run_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

Known = dict[str, dict[str, Any]]


def known_paths() -> Known:
    """Return what a running agent says of each bond; empty where none runs."""
    found = find_state(find_run_dir())
    if found.document is None or found.problem:
        return {}
    bonds = found.document.get("detail", {}).get("bonds", {})
    return bonds if isinstance(bonds, dict) else {}


def judged(bond: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """Return a bond as status shows it, with paths, the time to notice a loss, and a verdict."""
    told = known.get(bond["name"], {})
    paths = told.get("members", {})
    members = {
        name: {
            **member,
            "path": paths.get(name, {}).get("path", "unknown"),
            "path_reason": paths.get(name, {}).get("path_reason"),
        }
        for name, member in bond["members"].items()
    }
    seen = {**bond, "members": members, "silent": told.get("silent")}
    seen["detection_s"] = _detection_s(bond["options"]) if bond["monitored"] else None
    seen["protection"] = _trouble(seen)
    return {**seen, "redundant": not seen["protection"]}


def _detection_s(options: Mapping[str, Any]) -> float:
    return float(options.get("miimon") or options.get("arp_interval") or 0) / 1000


def _trouble(bond: Mapping[str, Any]) -> str:
    """Return why a bond does not protect; empty if it does."""
    if not bond["monitored"]:
        return "no link monitoring, it never fails over"
    detection_s = bond["detection_s"]
    if detection_s * 1000 > SLOW_MS:
        option = "miimon" if bond["options"].get("miimon") else "arp_interval"
        return (
            f"it notices a lost member only after up to {detection_s:g} s "
            f"({option} {detection_s * 1000:.0f}; 50 to 100 is usual)"
        )
    working = [one for one in bond["members"].values() if one["good"] and one["path"] != "dead"]
    if len(working) < ENOUGH_FOR_REDUNDANCY:
        return f"{len(working)} of {len(bond['members'])} members work"
    return ""


def headline(bond: Mapping[str, Any]) -> str:
    """Return in one line who carries, and whether the bond protects."""
    active = bond["members"].get(bond["active"])
    carries = f"{bond['active']} carries" if active else "nothing carries"
    if active and not active["good"]:
        carries = f"nothing carries ({bond['active']} is the active member, and has no link)"
    elif active and active["path"] == "dead":
        carries = f"nothing comes back through {bond['active']}, the active member"
    elif bond["silent"]:
        carries += f", but {bond['silent']} through any member"
    why = bond["protection"]
    return f"{carries}, {f'NOT protected: {why}' if why else 'protected'}"


def member_state(member: Mapping[str, Any]) -> str:
    """Return in words how a member is."""
    if not member["admin_up"]:
        return "set down"
    if not member["good"]:
        return "LOST"
    return f"NO ANSWER ({member['path_reason']})" if member["path"] == "dead" else "good"
