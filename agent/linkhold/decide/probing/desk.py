"""One bond during one step: its memory as it becomes, and what is asked for on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.dice import SIDES, rolled
from linkhold.decide.probing.evidence import MOST_MISSES, QUIET_DOUBT, Record, needed, pooled
from linkhold.decide.probing.values import MemberMemory, SendProbe

if TYPE_CHECKING:
    from linkhold.decide.probing.values import (
        Action,
        BondMemory,
        BondSight,
        Flow,
        MemberSight,
        Rules,
        Target,
    )
    from linkhold.decide.readings import BondMoveReading

MS = 1_000_000
SECOND = 1_000 * MS
BUSY_NS = SECOND
"""A node that received something within this is busy."""
ENOUGH_TO_TELL = 8
FEW_MISSES = 3
"""After so many misses in a row another target is asked instead."""
NEWS_NS = 10 * SECOND
"""A dead member is known to be so only while another one answered within this."""


class Desk:
    """What a step works on. Only the step that made it changes it."""

    def __init__(self, rules: Rules, bond: BondMemory, flow: Flow, now_ns: int) -> None:
        self.rules = rules
        self.bond = bond
        self.flow = flow
        self.now_ns = now_ns
        self.actions: list[Action] = []
        self.moved: list[BondMoveReading] = []

    def put(self, **changes: Any) -> None:
        """Change what is remembered of the bond."""
        self.bond = replace(self.bond, **changes)

    def put_flow(self, **changes: Any) -> None:
        """Change what is remembered of the bond's traffic."""
        self.flow = replace(self.flow, **changes)

    def member(self, name: str) -> MemberMemory:
        """Return what is remembered of a member."""
        return self.bond.members.get(name) or MemberMemory()

    def put_member(self, name: str, **changes: Any) -> None:
        """Change what is remembered of a member."""
        members = {**self.bond.members, name: replace(self.member(name), **changes)}
        self.bond = replace(self.bond, members=members)

    def record(self, name: str, target: Target) -> Record:
        """Return the record of a target through a member."""
        return self.member(name).records.get(target) or Record()

    def put_record(self, name: str, target: Target, record: Record) -> None:
        """Change the record of a target through a member."""
        self.put_member(name, records={**self.member(name).records, target: record})

    def judge(self, name: str, verdict: str, reason: str = "") -> None:
        """Change the verdict on a member's path."""
        active = self.bond.sight.active == name
        died_active = active if verdict == "dead" else False
        if self.member(name).verdict != verdict:
            self.put_member(name, revived=0, steady_ns=0, died_active=died_active)
        self.put_member(name, verdict=verdict, reason=reason)

    @property
    def sight(self) -> BondSight:
        """The bond as the kernel shows it."""
        return self.bond.sight

    @property
    def active(self) -> MemberSight | None:
        """The active member, None while there is none or it lost carrier."""
        found = self.sight.member(self.sight.active)
        return found if found is not None and found.carrier else None

    @property
    def standbys(self) -> tuple[MemberSight, ...]:
        """The members that could carry besides the active one."""
        return tuple(m for m in self.sight.members if m.good and m.name != self.sight.active)

    @property
    def busy(self) -> bool:
        """Whether traffic was received a short time ago."""
        return bool(self.flow.heard_ns) and self.now_ns - self.flow.heard_ns < BUSY_NS

    def roll(self) -> float:
        """Return a number from 0 up to 1, by chance."""
        self.put(dice=rolled(self.bond.dice, self.rules.seed))
        return self.bond.dice / SIDES

    def answered_lately(self, name: str) -> bool:
        """Tell whether any target answered through a member within the last ten seconds."""
        records = self.member(name).records.values()
        return any(r.known and self.now_ns - r.answered_ns < NEWS_NS for r in records)

    def judged_by(self, name: str, target: Target) -> Record:
        """Return the record that tells how many misses through a member prove something."""
        others = (m.name for m in self.sight.members if m.name != name)
        return pooled(self.record(name, target), (self.record(o, target) for o in others))

    def witness(self, tried: tuple[Target, ...] = ()) -> Target | None:
        """Return the target to ask: the first of the list that answers, else the first.

        None when all others than ``tried`` answer too few probes to prove anything.
        """
        left = [
            (self.record(self.sight.active, target), target)
            for target in self.sight.targets
            if target not in tried
        ]
        able = [(record, target) for record, target in left if is_witness(record)]
        return max(able, key=lambda pair: _worth(pair[0]), default=(None, None))[1]

    def send(self, member: MemberSight, target: Target, *, broadcast: bool = False) -> None:
        """Send one probe, and remember that it is under way."""
        standby = member.name != self.sight.active
        mac = "" if broadcast else self.bond.macs.get(target.address, "")
        source = member.standby_mac if standby else member.mac
        self.actions.append(
            SendProbe(self.sight.name, member.name, member.index, source, standby, target, mac)
        )
        # What a standby sends may come back to the active member: switches flood frames for a MAC
        # that they do not know, which is what a gateway has that died.
        self.put_flow(
            own_sent=self.flow.own_sent + (not standby),
            own_received=self.flow.own_received + standby,
        )
        record = self.record(member.name, target)
        if record.sent_ns:
            self.put_member(member.name, steady_ns=0)
        self.put_record(member.name, target, record.sent(self.now_ns))


def _worth(record: Record) -> tuple[bool, bool]:
    hopeful = record.pending < FEW_MISSES
    return hopeful, hopeful or record.known


def is_witness(record: Record) -> bool:
    """Tell whether silence of this target can prove anything. At first it is believed to."""
    return record.count < ENOUGH_TO_TELL or needed(record.loss, QUIET_DOUBT) <= MOST_MISSES
