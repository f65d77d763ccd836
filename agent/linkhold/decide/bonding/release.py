"""A bond that others made and linkhold only adjusted becomes again what it was. Pure.

It stays, for it is not ours: only the members that linkhold put in leave, and only the options
that are still as linkhold set them are set back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.config.settings import BondSettings
from linkhold.decide.bonding.adjust import ARP_MONITOR, RESCALED_BY_MIIMON, options_back
from linkhold.decide.bonding.objects import belongings
from linkhold.decide.bonding.plan import split_targets
from linkhold.decide.bonding.readback import named
from linkhold.decide.bonding.steps import (
    GONE_ALREADY,
    Await,
    Burst,
    Checks,
    Phase,
    Plan,
    SetLink,
    Undo,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.model.look import Look, LookedLink


def plan_release(name: str, look: Look, record: Mapping[str, Any]) -> Plan:
    """Return the plan that takes back what was adjusted; no phases where nothing is left of it.

    ``record`` is what was kept at the adjustment; it is dropped with this.
    """
    bond = look.link(name)
    assert bond is not None  # noqa: S101 - the caller found it there
    before: Mapping[str, Any] = record.get("before") or {}
    now = named(look, bond.bond or {})
    options = _options(before.get("options", {}), record["options"], now)
    ours = [p for p in look.ports_of(bond.index) if _is_ours(p, before, record)]
    phases: list[Phase] = []
    undo: list[Undo] = []
    if options:
        old = options_back(name, options, monitored=bool(before["options"].get("miimon")))
        kept = {k: now[k] for k in (*options, *RESCALED_BY_MIIMON) if k in now}
        back = options_back(name, kept, monitored=bool(now.get("miimon")))
        undo.append(Undo(Burst((back,)), len(phases)))
        phases.append(Phase(f"set options of {name} back: {', '.join(options)}", (Burst((old,)),)))
    if ours:
        names = tuple(port.name for port in ours)
        undo += [Undo(step, len(phases)) for step in _join(name, names)]
        originals = record.get("originals", {})
        steps = tuple(Burst(_leave(port, originals.get(port.name, {}))) for port in ours)
        leave = "leaves" if len(names) == 1 else "leave"
        phases.append(Phase(f"{' and '.join(names)} {leave} {name}", steps))
    near, _ = split_targets(BondSettings(), belongings(look, name))
    return Plan(
        name,
        "remove",
        phases=tuple(phases),
        undo=tuple(undo),
        checks=Checks(answers=((name, near),) if near else ()),
        interruption="none expected: members that were there before carry",
        record={"live": name},
    )


def _options(
    before: Mapping[str, object], ours: Mapping[str, object], now: Mapping[str, object]
) -> dict[str, object]:
    """Return the options to set back: those that nobody changed since."""
    found = {
        name: value
        for name, value in before.items()
        if name in ours and now.get(name) == ours[name] and value != ours[name]
    }
    if "miimon" in found:
        found |= {name: before[name] for name in RESCALED_BY_MIIMON if name in before}
        if before.get("arp_interval"):  # setting miimon has switched it off
            found |= {name: before[name] for name in ARP_MONITOR if name in before}
    return found


def _is_ours(port: LookedLink, before: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    joined = port.name in record["members"]
    return bool(before) and joined and port.name not in before["members"]


def _leave(port: LookedLink, original: Mapping[str, Any]) -> tuple[SetLink, ...]:
    up, mtu = bool(original.get("admin_up", True)), int(original.get("mtu", port.mtu))
    return (
        SetLink(port.name, master="", fine=GONE_ALREADY),
        SetLink(port.name, up=up, mtu=mtu, fine=GONE_ALREADY),
    )


def _join(name: str, members: tuple[str, ...]) -> Iterator[Burst | Await]:
    for member in members:
        yield Burst((SetLink(member, up=False, master=name),))
    yield Await(members, bond=name, optional=True)
