"""``linkhold bond test``: move to the standby and back, and measure what that costs."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import TYPE_CHECKING, Any

from linkhold.actuators.compile import compiled
from linkhold.actuators.journal import Journal
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


def run(args: argparse.Namespace) -> int:
    """Test each standby of a bond in turn; return 0 when every move lost nothing for long."""
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
    return 0 if all(outcome["returned"] for outcome in outcomes) else 1


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
        answer = ask(port.name, targets, timeout_s=ASK_S) if targets else None
        if answer is not None and answer.verdict is Known.NO:
            raise HostError(
                f"{', '.join(targets)} does not answer through {port.name}, so {bond.name} is "
                "not moved to it; check its switch port and VLAN"
            )
    return tuple(port.name for port in ports)


def _move(bond: str, active: str, standby: str, targets: tuple[str, ...]) -> dict[str, Any]:
    """Move to ``standby`` and back under a guard, with echoes to a target that answers them."""
    host = next((target for target in targets if echo.answers(target)), "")
    trial = Transaction(Journal(), compiled(_plan(bond, active, standby)), lambda _: None)
    stream = EchoStream(host) if host else None
    with hangup_survived():
        if stream is None:
            problems = trial.borrow(lambda: time.sleep(THERE_S))
        else:
            with stream:
                time.sleep(BEFORE_S)
                problems = trial.borrow(lambda: time.sleep(THERE_S))
                time.sleep(AFTER_S)
    look = snapshot.take()
    now = str(_bond(look, bond)[1]["active_slave"])
    found: dict[str, Any] = {"bond": bond, "from": active, "to": standby, "active": now}
    found |= {"returned": now == active, "problems": problems, "target": host or None}
    if stream is not None:
        loss = stream.loss
        found |= {"sent": loss.sent, "lost": loss.lost, "longest_ms": loss.longest_ms}
    return found


def _plan(bond: str, active: str, standby: str) -> Plan:
    there = Burst((SetBond(bond, {"active_slave": standby}),))
    # EINVAL: the old member lost its link meanwhile; then the standby is the right one.
    back = Burst((SetBond(bond, {"active_slave": active}, fine=(errno.EINVAL,)),))
    return Plan(
        bond,
        "test",
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
    if not outcome["returned"]:
        print(f"  did not return to {outcome['from']}: it lost its link during the test")
    for problem in outcome["problems"]:
        print(f"  {problem}")
