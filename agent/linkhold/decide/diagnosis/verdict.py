"""Which of all faults that were found is the one to tell first.

Each rule stands by itself and yields what it sees. The worst state counts first, then the order
of the rules: from the plug to the application, since what is lower explains what is higher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.diagnosis import beyond, cards, host, links, log, near, sessions
from linkhold.decide.diagnosis.seen import way_out_works
from linkhold.model.diagnosis import Diagnosis, Place, State, Sure, Verdict
from linkhold.model.probes import Heard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.model.diagnosis_facts import Facts

RULES: tuple[Callable[[Facts], Iterator[Verdict]], ...] = (
    log.open_incidents,
    links.no_nic,
    host.battery,
    links.no_carrier,
    links.set_down,
    links.bond_unwatched,
    links.bond_members,
    host.duplicate_address,
    host.no_address,
    host.no_default_route,
    host.wrong_netmask,
    host.blocked_here,
    host.dropped_out,
    host.full_tables,
    near.member_paths,
    near.gateway_silent,
    near.path_mtu,
    beyond.targets_dead,
    beyond.resolvers,
    beyond.nameless,
    beyond.metadata,
    cards.growing_errors,
    log.flapping,
    cards.narrow_slot,
    sessions.moved_address,
    sessions.forgotten,
    host.dropped_in,
    host.rivals,
    host.clock,
    log.past_incidents,
    host.agent_mute,
    sessions.unprotected,
    host.heartbeats,
)
ORDER = (State.DOWN, State.DEGRADED, State.UNKNOWN, State.HEALTHY)
LOOK_AT_FIRST = ("linkhold diagnose --since 24h", "ip -br link", "ip route")


def judged(facts: Facts) -> Diagnosis:
    """Return the verdict and the other faults; evidence is added by its own function."""
    found = [claim for rule in RULES for claim in rule(facts)]
    found.sort(key=lambda claim: ORDER.index(claim.state))  # stable: the order of rules stays
    if not found:
        return Diagnosis(_no_fault(facts), missing=facts.missing)
    return Diagnosis(found[0], tuple(found[1:]), missing=facts.missing)


def _no_fault(facts: Facts) -> Verdict:
    """Nothing that was seen is wrong: healthy only where the way out was seen to work."""
    steps = [one.step for one in facts.missing]
    unasked = [one.name for one in facts.targets or () if one.answer.heard is Heard.UNKNOWN]
    unseen = ", ".join(dict.fromkeys([*steps, *unasked]))
    if facts.look is None:
        sentence = f"nothing could be seen of this host's network ({unseen})"
        return Verdict(
            State.UNKNOWN, Place.UNKNOWN, Sure.GUESS, sentence, ("sudo linkhold diagnose",)
        )
    if way_out_works(facts):
        apart = f"; not seen: {unseen}" if unseen else ""
        sure = Sure.LIKELY if unseen else Sure.CERTAIN
        text = f"nothing is broken as far as this host can see{apart}"
        return Verdict(State.HEALTHY, Place.NOTHING, sure, text)
    text = "nothing that was looked at is wrong, but it is not known whether any way out works"
    return Verdict(State.UNKNOWN, Place.UNKNOWN, Sure.GUESS, text, (
        "linkhold diagnose --target 192.0.2.1  # an address that must answer", *LOOK_AT_FIRST[1:]
    ))  # fmt: skip
