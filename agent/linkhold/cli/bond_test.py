"""``linkhold bond test``: move to the standby and back, and measure what that costs."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators.compile import compiled
from linkhold.actuators.journal import TRIAL, Journal
from linkhold.actuators.transaction import Transaction
from linkhold.cli.bond_apply import hangup_survived
from linkhold.config import load
from linkhold.config.settings import BondSettings
from linkhold.decide.bonding.objects import belongings
from linkhold.decide.bonding.plan import split_targets
from linkhold.decide.bonding.readback import named
from linkhold.decide.bonding.steps import Burst, Phase, Plan, SetBond, Undo
from linkhold.model import HostError
from linkhold.model.survey import Known
from linkhold.survey import echo, snapshot
from linkhold.survey.echo_stream import EchoStream
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from linkhold.model.look import Look, LookedLink

ASK_S = 2.0
BEFORE_S, THERE_S, AFTER_S = 0.5, 2.0, 1.0
GUARD_S = 20.0
LOOK_S = 0.02
SYSFS = Path("/sys/class/net")


def run(args: argparse.Namespace) -> int:
    """Test each standby of a bond in turn; return 0 when each really carried, and gave back."""
    if os.geteuid() != 0:
        raise HostError("bond test moves traffic: run it as root")
    look = snapshot.take()
    bond, options = _bond(look, args.bond)
    active = str(options["active_slave"])
    targets = _targets(look, args)
    standbys = _standbys(look, bond, active, targets)
    outcomes = [_move(args.bond, active, name, targets) for name in standbys]
    if args.json:
        print(json.dumps(outcomes, indent=2))
    else:
        for outcome in outcomes:
            _show(outcome)
    return 0 if all(_passed(outcome) for outcome in outcomes) else 1


def _bond(look: Look, name: str) -> tuple[LookedLink, Mapping[str, object]]:
    link = look.link(name)
    if link is None or link.bond is None:
        there = ", ".join(one.name for one in look.links if one.kind == "bond") or "none"
        raise HostError(f"{name} is no bond on this host; bonds here: {there}")
    options = named(look, link.bond)
    if options.get("mode") != 1 or not options["active_slave"]:
        raise HostError(f"{name} has no active member to move away from; see linkhold bond status")
    return link, options


def _targets(look: Look, args: argparse.Namespace) -> tuple[str, ...]:
    settings = load(args.config).bonds.get(args.bond, BondSettings())
    return split_targets(settings, belongings(look, args.bond))[0]


def _standbys(
    look: Look, bond: LookedLink, active: str, targets: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the standbys that may be moved to; raises :class:`HostError` for a dead one."""
    ports = [port for port in look.ports_of(bond.index) if port.name != active]
    if not ports:
        raise HostError(f"{bond.name} has no standby: {active} is its only member")
    for port in ports:
        if not port.usable:
            raise HostError(
                f"{port.name} has no link, so {bond.name} is not moved to it; check its cable"
            )
        if targets and ask(port.name, targets, timeout_s=ASK_S).verdict is Known.NO:
            raise HostError(_silence(bond.name, active, port.name, targets))
    return tuple(port.name for port in ports)


def _silence(bond: str, active: str, standby: str, targets: tuple[str, ...]) -> str:
    """Return whose fault it is that nobody answers through a standby, in words."""
    asked = ", ".join(targets)
    over_active = ask(active, targets, timeout_s=ASK_S).verdict
    if over_active is Known.NO:
        return (
            f"{asked} answers through no member of {bond}, so it is not {standby} that is at "
            f"fault, and {bond} is not moved; look after {asked}, or name hosts that answer under "
            f"bonds: {bond}: targets"
        )
    contrast = f" but does through {active}" if over_active is Known.YES else ""
    return (
        f"{asked} does not answer through {standby}{contrast}, so {bond} is not moved to it; "
        f"check the switch port and VLAN of {standby}"
    )


def _move(bond: str, active: str, standby: str, targets: tuple[str, ...]) -> dict[str, Any]:
    """Move to ``standby`` and back under a guard, with echoes to a target that answers them."""
    host = next((target for target in targets if echo.answers(target)), "")
    trial = Transaction(Journal(), compiled(_plan(bond, active, standby)), lambda _: None)
    stream = EchoStream(host) if host else None
    there = Stay(bond, standby)
    with hangup_survived():
        if stream is None:
            problems = trial.borrow(there.watch)
        else:
            with stream:
                time.sleep(BEFORE_S)
                problems = trial.borrow(there.watch)
                time.sleep(AFTER_S)
    look = snapshot.take()
    now = str(_bond(look, bond)[1]["active_slave"])
    found: dict[str, Any] = {"bond": bond, "from": active, "to": standby, "active": now}
    found |= {"moved": there.moved, "stayed_s": there.stayed_s, "stayed": there.stayed}
    found |= {"returned": now == active, "problems": problems, "target": host or None}
    if stream is not None:
        loss = stream.loss
        found |= {"sent": loss.sent, "lost": loss.lost, "longest_ms": loss.longest_ms}
    return found


class Stay:
    """Looks whether the standby really carries, for as long as the test takes."""

    def __init__(self, bond: str, standby: str, *, at_most_s: float = THERE_S) -> None:
        self._file = SYSFS / bond / "bonding/active_slave"
        self._standby = standby
        self._at_most_s = at_most_s
        self.moved = self.stayed = False
        self.stayed_s = 0.0

    def watch(self) -> None:
        """Look until the time is over, or somebody else has moved the bond."""
        began = time.monotonic()
        while self._carries():
            self.moved = True
            self.stayed_s = round(time.monotonic() - began, 2)
            if self.stayed_s >= self._at_most_s:
                self.stayed = True
                return
            time.sleep(LOOK_S)

    def _carries(self) -> bool:
        try:
            return self._file.read_text(encoding="utf-8").strip() == self._standby
        except OSError:  # the bond is gone
            return False


def _passed(outcome: Mapping[str, Any]) -> bool:
    """Tell whether the standby carried for the whole test and traffic went back."""
    return bool(outcome["stayed"] and outcome["returned"] and not outcome["problems"])


def _plan(bond: str, active: str, standby: str) -> Plan:
    there = Burst((SetBond(bond, {"active_slave": standby}),))
    # EINVAL: the old member lost its link meanwhile; then the standby is the right one.
    back = Burst((SetBond(bond, {"active_slave": active}, fine=(errno.EINVAL,)),))
    return Plan(
        bond,
        TRIAL,
        phases=(Phase(f"move {bond} to {standby}", (there,)),),
        undo=(Undo(back),),
        guard_s=GUARD_S,
    )


def _show(outcome: dict[str, Any]) -> None:
    moved = f"{outcome['bond']}: {outcome['from']} -> {outcome['to']} -> {outcome['active']}"
    if outcome["target"] is None:
        print(f"{moved}: nobody answers echoes, so the loss was not measured")
    else:
        print(
            f"{moved}: {outcome['lost']} of {outcome['sent']} echoes to {outcome['target']} lost, "
            f"longest gap {outcome['longest_ms']:g} ms"
        )
    if not outcome["moved"]:
        print(f"  FAILED: it was never moved to {outcome['to']}, so nothing was tested")
    elif not outcome["stayed"]:
        print(
            f"  FAILED: {outcome['to']} carried for {outcome['stayed_s']:g} s only: it lost its "
            "link or its way to the gateway, or something else moves the bond (linkhold events)"
        )
    if not outcome["returned"]:
        print(f"  did not return to {outcome['from']}: it lost its link during the test")
    for problem in outcome["problems"]:
        print(f"  {problem}")
