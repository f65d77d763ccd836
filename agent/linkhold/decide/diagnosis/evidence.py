"""What was seen, as rows for a person: one function for each step. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from linkhold.decide import bonds
from linkhold.decide.diagnosis.cards import CARD, HOST, OTHER, WIRE, pcie
from linkhold.decide.diagnosis.host import FULL
from linkhold.decide.diagnosis.seen import RT_SCOPE_SITE, defaults, nics
from linkhold.decide.diagnosis.words import age, listed
from linkhold.model.diagnosis import Evidence, Mark
from linkhold.model.probes import Heard
from linkhold.model.survey import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.model.diagnosis_facts import Facts
    from linkhold.model.probes import Answer

ROWS_MOST = 200
"""A report stays below the 256 KiB of ``diag/<id>``, however many NICs and targets there are."""
STEP_ROWS_MOST = 25
"""What a person reads of one step; a host with 5,000 VLANs has other steps as well."""
MARKS = {
    Heard.ANSWERS: Mark.OK,
    Heard.REFUSED: Mark.NOTE,
    Heard.SILENT: Mark.BAD,
    Heard.UNREACHABLE: Mark.BAD,
    Heard.UNKNOWN: Mark.UNKNOWN,
}
GRAVITY = (Mark.BAD, Mark.UNKNOWN, Mark.NOTE, Mark.OK)
KNOWN = {Known.YES: Mark.OK, Known.NO: Mark.BAD, Known.UNKNOWN: Mark.UNKNOWN}


def rows(facts: Facts) -> tuple[Evidence, ...]:
    """Return all evidence in the order of the steps."""
    found: dict[str, list[Evidence]] = {}
    for step in STEPS:
        for row in step(facts):
            found.setdefault(row.step, []).append(row)
    shown = [row for of_step in found.values() for row in _shortened(of_step)]
    return tuple(shown[:ROWS_MOST])


def _shortened(found: list[Evidence]) -> list[Evidence]:
    """Return the rows of a step; of too many those that matter, and how many more there are."""
    if len(found) <= STEP_ROWS_MOST:
        return found
    kept = sorted(found, key=lambda row: GRAVITY.index(row.mark))[: STEP_ROWS_MOST - 1]
    left = Counter(row.mark for row in found)
    left.subtract(row.mark for row in kept)
    words = ", ".join(f"{left[mark]} {mark.value}" for mark in GRAVITY if left[mark])
    return [*kept, Evidence(found[0].step, "more", Mark.NOTE, f"not shown: {words}")]


def _links(facts: Facts) -> Iterator[Evidence]:
    addresses: dict[int, list[str]] = {}
    for one in facts.look.addresses if facts.look is not None else ():
        if one.scope <= RT_SCOPE_SITE:
            addresses.setdefault(one.index, []).append(one.address)
    for link in nics(facts):
        text = "up" if link.usable else "no carrier" if link.admin_up else "set down"
        if facts.look is not None:
            own = tuple(addresses.get(link.index, ()))
            text += f", {listed(own)}" if own else ", no address"
        text += f", carrier losses since boot: {link.carrier_downs}"
        yield Evidence("links", link.name, Mark.OK if link.usable else Mark.BAD, text)


def _bonds(facts: Facts) -> Iterator[Evidence]:
    for view in bonds.views(facts.network) if facts.network is not None else ():
        good = len(view.members) - len(view.lost)
        members = f"{good} of {len(view.members)} members good"
        text = f"{view.mode}, {view.active or 'none'} active, {members}"
        text += "" if view.monitored else ", no link monitoring"
        yield Evidence("bonds", view.name, Mark.OK if view.redundant else Mark.BAD, text)
    for one in facts.members or ():
        said = f"{one.asked.target} answers" if one.asked.verdict is Known.YES else one.asked.reason
        yield Evidence("bonds", f"{one.bond}/{one.member}", KNOWN[one.asked.verdict], said)


def _addresses(facts: Facts) -> Iterator[Evidence]:
    for one in facts.duplicates or ():
        text = f"also at {one.mac or 'another host'}"
        yield Evidence("addresses", f"{one.address} on {one.link}", Mark.BAD, text)
    if facts.duplicates == ():
        yield Evidence("addresses", "own", Mark.OK, "no other host answers for them")


def _routes(facts: Facts) -> Iterator[Evidence]:
    if facts.look is None:
        return
    found = defaults(facts.look)
    for route in found:
        over = listed(tuple(facts.look.name_of(index) for index in route.indexes))
        text = f"via {route.gateway or 'no gateway'} on {over}, metric {route.metric}"
        yield Evidence("routes", f"default {route.family}", Mark.OK, text)
    if not found:
        yield Evidence("routes", "default", Mark.BAD, "there is no default route")


def _answer(step: str, subject: str, answer: Answer) -> Evidence:
    took = f" in {answer.rtt_ms:.1f} ms" if answer.rtt_ms is not None else ""
    detail = f": {answer.detail}" if answer.detail else ""
    text = f"{answer.how} {answer.heard.value}{took}{detail}"
    return Evidence(step, subject, MARKS[answer.heard], text)


def _gateways(facts: Facts) -> Iterator[Evidence]:
    for one in facts.gateways or ():
        yield _answer("gateway", f"{one.address} on {one.link}", one.answer)
        for other in one.others:
            yield _answer("neighbours", f"{other.target} on {one.link}", other)


def _targets(facts: Facts) -> Iterator[Evidence]:
    for one in facts.targets or ():
        yield _answer("targets", one.name, one.answer)
        if one.ping is not None:
            yield _answer("targets", f"{one.name}, host", one.ping)


def _mtu(facts: Facts) -> Iterator[Evidence]:
    for one in facts.mtu or ():
        hole = one.small.works and one.large.heard is Heard.SILENT
        mark = Mark.BAD if hole else Mark.OK if one.large.works else Mark.NOTE
        if not one.small.works:
            mark = Mark.UNKNOWN
        told = f": {one.large.detail}" if one.large.detail else ""
        text = f"{one.size_bytes} bytes unsplit: {one.large.heard.value}{told}"
        yield Evidence("path MTU", f"{one.target} over {one.link}", mark, text)


def _dns(facts: Facts) -> Iterator[Evidence]:
    for one in facts.dns or ():
        yield _answer("DNS", one.target, one)


def _metadata(facts: Facts) -> Iterator[Evidence]:
    for one in facts.metadata or ():
        yield _answer("metadata", one.target, one)
    if facts.metadata == ():
        yield Evidence("metadata", "-", Mark.NOTE, "no cloud machine, or not to be asked")


def _log(facts: Facts) -> Iterator[Evidence]:
    if facts.log is None:
        return
    for one in facts.log.incidents:
        subject, over = one.incident.subject, f"; over: {one.over}" if one.over else ""
        lines = f"{one.incident.lines} lines" if one.incident.lines > 1 else "1 line"
        text = f"{age(one.age_s)} ago: {one.incident.cause} ({lines}){over}"
        yield Evidence("kernel log", subject, Mark.NOTE if one.over else Mark.BAD, text)
    for name, count in facts.log.downs.items():
        times = "once" if count == 1 else f"{count} times"
        yield Evidence("kernel log", name, Mark.NOTE, f"link went down {times}")
    if facts.log.lost:
        text = f"{facts.log.lost} records were overwritten before they were read"
        yield Evidence("kernel log", "-", Mark.UNKNOWN, text)
    if not facts.log.incidents and not facts.log.downs and facts.log.whole:
        text = f"nothing about NICs in the last {age(facts.log.since_s)}"
        yield Evidence("kernel log", "-", Mark.OK, text)


def _cards(facts: Facts) -> Iterator[Evidence]:
    for card in facts.cards or ():
        firmware = f", firmware {card.firmware}" if card.firmware else ""
        lanes = f", {pcie(card)}" if pcie(card) else ""
        version = f" {card.version}" if card.version else ""
        text = f"driver {card.driver or 'unknown'}{version}{firmware}{lanes}"
        yield Evidence("hardware", card.link, Mark.NOTE, text)


def _counters(facts: Facts) -> Iterator[Evidence]:
    for one in facts.counters or ():
        names = (*WIRE, *HOST, *CARD, *OTHER)
        grown = {name: one.grown(name) for name in names if one.grown(name)}
        old = {name: one.after[name] for name in names if one.after.get(name)}
        if grown:
            text = "grow: " + ", ".join(f"{name} +{count}" for name, count in grown.items())
        elif old:
            text = "old, not growing: " + ", ".join(f"{n} {count}" for n, count in old.items())
        else:
            text = "no errors"
        mark = Mark.BAD if grown else Mark.NOTE if old else Mark.OK
        yield Evidence("counters", one.link, mark, text)


def _host(facts: Facts) -> Iterator[Evidence]:
    for fill in facts.fills or ():
        mark = Mark.BAD if fill.most and fill.entries >= FULL * fill.most else Mark.OK
        yield Evidence("tables", fill.name, mark, f"{fill.entries} of {fill.most}")
    if facts.firewall is not None:
        for drop in facts.firewall.drops:
            text = f"dropped {drop.grown} during the run, {drop.total} in all"
            yield Evidence("firewall", drop.where, Mark.BAD if drop.grown else Mark.NOTE, text)
        for chain in facts.firewall.closed:
            yield Evidence("firewall", chain, Mark.NOTE, "drops by policy what no rule accepts")
    for owner in facts.owners or ():
        rivals = listed(tuple(kind.value for kind in owner.contenders))
        text = owner.kind.value + (f", also claimed by {rivals}" if rivals else "")
        yield Evidence("managers", owner.name, Mark.BAD if rivals else Mark.NOTE, text)


def _rest(facts: Facts) -> Iterator[Evidence]:
    if facts.keepalive is not None:
        mark = Mark.NOTE if facts.keepalive.enough is not True else Mark.OK
        yield Evidence("keepalive", "sysctls", mark, facts.keepalive.text)
    if facts.clock is not None:
        word = {True: "synchronised", False: "not synchronised", None: "the kernel does not say"}
        behind = facts.clock.floor_s and facts.clock.wall_s < facts.clock.floor_s
        mark = Mark.BAD if behind else Mark.OK if facts.clock.synced else Mark.NOTE
        text = word[facts.clock.synced] + (", and behind files of this host" if behind else "")
        yield Evidence("clock", "wall clock", mark, text)
    yield from _sessions(facts)
    if facts.agent is not None:
        text = f"network {facts.agent.network}, power {facts.agent.power}"
        text = text if facts.agent.running else facts.agent.mute or "no agent runs here"
        yield Evidence("agent", "-", Mark.BAD if facts.agent.mute else Mark.NOTE, text)


def _sessions(facts: Facts) -> Iterator[Evidence]:
    found = facts.sessions
    if found is None:
        return
    if not found.processes:
        yield Evidence("training", "-", Mark.NOTE, "no training process was found")
    else:
        text = (
            f"{found.processes} processes, {found.connections} connections to other hosts, "
            f"{found.unprotected} without keepalive"
        )
        mark = Mark.BAD if found.unprotected else Mark.OK
        yield Evidence("training", listed(found.jobs) or "-", mark, text)
    for one in found.stuck:
        how = "zero window" if one.zero_window else f"{one.retransmits} retransmissions unanswered"
        yield Evidence(
            "connections", f"{one.remote} port {one.port}", Mark.BAD, f"{how} ({one.kind})"
        )


STEPS: tuple[Callable[[Facts], Iterator[Evidence]], ...] = (
    _links, _bonds, _addresses, _routes, _gateways, _mtu, _targets, _dns, _metadata, _log,
    _cards, _counters, _host, _rest,
)  # fmt: skip
