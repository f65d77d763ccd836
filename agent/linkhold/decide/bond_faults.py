"""Bonds that will not protect when it matters, whoever made them. Pure.

No monitoring at all (complaint R09), monitoring in the wrong unit (R10), and a virtual function
whose switch drops a copied MAC (R08).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from linkhold.decide.bond_paths import SLOW_MS
from linkhold.decide.bonds import MODES
from linkhold.decide.happening import Happening
from linkhold.model import Severity
from linkhold.rtnl.bond import MODE_ACTIVE_BACKUP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.model import HostNetwork, Link

FAIL_OVER_MAC_NONE = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with how a bond is made; ``type`` is that of its event and alert."""

    type: str
    severity: Severity
    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


def faults(host: HostNetwork, index: int) -> tuple[Fault, ...]:
    """Return what is wrong with the bond ``index``."""
    link = host.links.get(index)
    return tuple(_faults(host, link)) if link is not None and link.bond is not None else ()


def _faults(host: HostNetwork, link: Link) -> Iterator[Fault]:
    bond, name = link.bond, link.name
    assert bond is not None  # noqa: S101 - faults() asks only about bonds
    if not bond.monitored:
        mode = MODES[bond.mode] if bond.mode < len(MODES) else str(bond.mode)
        text = f"{name} has no link monitoring (miimon 0): it will never fail over"
        yield Fault("bond.unmonitored", Severity.CRITICAL, text, {"mode": mode})
    slow_ms = max(bond.miimon_ms, bond.arp_interval_ms)
    if slow_ms > SLOW_MS:
        option = "miimon" if bond.miimon_ms else "arp_interval"
        text = (
            f"{name} notices a lost member only after up to {slow_ms / 1000:g} s "
            f"({option} {slow_ms} ms; 50 to 100 is usual)"
        )
        data = {"option": option, "detection_s": slow_ms / 1000}
        yield Fault("bond.slow_monitoring", Severity.WARNING, text, data)
    functions = [port.name for port in host.ports_of(link.index) if port.vf]
    if functions and (bond.mode, bond.fail_over_mac) == (MODE_ACTIVE_BACKUP, FAIL_OVER_MAC_NONE):
        text = (
            f"{name} gives its MAC to {' and '.join(functions)}, a virtual function: without trust "
            "its NIC drops that after a failover; set fail_over_mac to active"
        )
        yield Fault("bond.vf_mac", Severity.WARNING, text, {"members": functions})


def compare(before: HostNetwork | None, after: HostNetwork) -> Iterator[Happening]:
    """Yield each fault that is new."""
    for index, link in after.links.items():
        if link.bond is None:
            continue
        old = before.links.get(index) if before else None
        known = {fault.type for fault in faults(before, index)} if before and old else set()
        for fault in faults(after, index):
            if fault.type not in known:
                first: dict[str, Any] = {} if before else {"initial": True}
                yield Happening(fault.type, link.name, {**fault.data, **first}, fault.severity)
