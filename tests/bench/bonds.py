"""Bonds made by linkhold beside a bond with miimon 100 and one with the kernel's ARP monitor.

All in one run, in the kernel lab. The guest ticks at 100 Hz and shares this machine: outages
below 20 ms are noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench import bond_scenes
from bench.rig import Impossible
from bench.rows import Row, row
from support.lab.host import Lab
from support.lab.machine import LabUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

CABLE_MS, SWITCH_MS, UNATTENDED_MS, ECHO_MS = 60.0, 350.0, 120.0, 50.0
FAIL_BACK_WAIT_S = 12.0
LABEL = {
    "linkhold": "linkhold",
    "unattended": "linkhold, its agent dead",
    "miimon": "miimon 100",
    "arp": "ARP monitor 100 ms",
}


def run(*, quick: bool) -> list[Row]:
    """Return every figure of the issue. Raises Impossible where the lab does not run."""
    with Lab() as lab:
        try:
            lab.boot()
        except LabUnavailable as reason:
            raise Impossible(str(reason)) from reason
        rounds = 2 if quick else 5
        return [*_moves(lab), *_cables(lab, rounds), *_switches(lab, rounds), *_fail_backs(lab)]


def _moves(lab: Lab) -> Iterator[Row]:
    for family, name in ((4, "IPv4"), (6, "IPv6"), (0, "a routed net")):
        value: dict[str, Any] = lab.run(bond_scenes.move, family=family).value
        what = f"live NIC into the bond, {name}: lost of 200 datagrams/s each way"
        yield row(what, "", value["lost"], most=1)
        yield row(
            f"  longest wait of a TCP echo, {name}", "ms", value["worst_echo_ms"], most=ECHO_MS
        )
        same = float(not value["same_after_removal"])
        yield row("  differences of ip -j after bond remove (0: none)", "", same, most=1)


def _cables(lab: Lab, rounds: int) -> Iterator[Row]:
    limits = {"linkhold": CABLE_MS, "unattended": UNATTENDED_MS}
    for make in bond_scenes.MAKES:
        outages = lab.run(bond_scenes.cable, make=make, rounds=rounds).value
        what = f"cable pulled, worst of {rounds}: {LABEL[make]}"
        yield row(what, "ms", max(outages), most=limits.get(make))


def _switches(lab: Lab, rounds: int) -> Iterator[Row]:
    for make in ("linkhold", "miimon", "arp"):
        outages = lab.run(bond_scenes.switch, make=make, rounds=rounds).value
        what = f"switch dead for 6 s, link up, worst of {rounds}: {LABEL[make]}"
        yield row(what, "ms", max(outages), most=SWITCH_MS if make == "linkhold" else None)


def _fail_backs(lab: Lab) -> Iterator[Row]:
    for make in ("linkhold", "miimon", "arp"):
        value = lab.run(bond_scenes.fail_back, make=make, wait_s=FAIL_BACK_WAIT_S).value
        back = "is back" if value["back"] else "stays on the standby"
        what = f"fail-back, switch not yet forwarding: lost, {LABEL[make]} ({back})"
        yield row(what, "", value["lost"], most=1 if make == "linkhold" else None)
