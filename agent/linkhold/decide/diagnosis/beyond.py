"""Rules about what lies behind the gateway: targets, resolvers, the metadata service. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide import metadata as service
from linkhold.decide.diagnosis.seen import DEAD, dead_targets, defaults, gateway_works, reach
from linkhold.decide.diagnosis.words import listed
from linkhold.model.diagnosis import Place, State, Sure, Verdict
from linkhold.model.probes import Heard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.diagnosis_facts import Facts, TargetFacts
    from linkhold.model.probes import Answer

FAILED = ("SERVFAIL",)
ROOT = "."
NO_ADDRESS = "no address is known"
"""What a target's answer says whose name could not be looked up."""


def targets_dead(facts: Facts) -> Iterator[Verdict]:
    """Targets that do not answer, told apart by what else does."""
    dead = dead_targets(facts)
    closed = [one for one in dead if one.ping is not None and one.ping.works]
    gone = [one for one in dead if one not in closed]
    for target in closed:
        yield _port_closed(target)
    if gone and not closed and len(gone) == len(facts.targets or ()):
        yield _all_gone(facts, gone)
    elif gone:
        for target in gone:
            yield _one_gone(target)
    for target in facts.targets or ():
        if target.answer.heard is Heard.REFUSED:
            yield _refused(target)


def _port_closed(target: TargetFacts) -> Verdict:
    """The host answers, its port is silent: packets to it are dropped by a rule, not by a fault."""
    text = (
        f"{target.name} answers echoes, but not on {target.answer.how} {target.answer.target}: a "
        "firewall or security group drops it (a rule that allowed it was deleted?)"
    )
    return Verdict(State.DEGRADED, Place.FIREWALL, Sure.LIKELY, text, (
        f"nc -vz -w 3 {target.address} {target.port}",
        f"tcptraceroute {target.address} {target.port}",
        "nft list ruleset",
    ))  # fmt: skip


def _all_gone(facts: Facts, gone: list[TargetFacts]) -> Verdict:
    names = listed(tuple(one.name for one in gone))
    does = "do" if len(gone) > 1 else "does"
    here = "the gateway answers, so the fault lies beyond it" if gateway_works(facts) else (
        "no gateway is known to answer either"
    )  # fmt: skip
    state = State.DEGRADED if len(gone) == 1 and gateway_works(facts) else State.DOWN
    if reach(facts) is State.HEALTHY:
        state = State.DEGRADED
    sure = Sure.LIKELY if gateway_works(facts) else Sure.GUESS
    text = f"{names} {does} not answer: {here}"
    address = gone[0].address or gone[0].name
    return Verdict(state, Place.BEYOND, sure, text, (
        f"ip route get {address}", f"tracepath -n {address}", f"ping -c 3 {address}"
    ))  # fmt: skip


def _one_gone(target: TargetFacts) -> Verdict:
    text = (
        f"{target.name} ({target.answer.target}) does not answer while others do: it is off, or "
        "the way to it is broken"
    )
    address = target.address or target.name
    return Verdict(State.DEGRADED, Place.BEYOND, Sure.LIKELY, text, (
        f"ping -c 3 {address}", f"tracepath -n {address}", f"ip route get {address}"
    ))  # fmt: skip


def _refused(target: TargetFacts) -> Verdict:
    text = (
        f"{target.name} is reached and refuses ({target.answer.target}: "
        f"{target.answer.detail or 'refused'}): the service there is down or ill"
    )
    return Verdict(State.DEGRADED, Place.BEYOND, Sure.LIKELY, text, (
        f"nc -vz -w 3 {target.address or target.name} {target.port or ''}".rstrip(),
        "ss -tan" if target.answer.how != "http" else f"curl -sv {target.answer.target}",
        f"ping -c 3 {target.address or target.name}",
    ))  # fmt: skip


def resolvers(facts: Facts) -> Iterator[Verdict]:
    """Resolvers that do not answer, or cannot find out; each look-up waits for a dead one."""
    answers = facts.dns or ()
    servers = tuple(dict.fromkeys(one.target for one in answers))
    bad = {one.target: _trouble(one) for one in answers if _trouble(one)}
    if not bad:
        return
    every = len(bad) == len(servers)
    first = next(iter(bad))
    if every:
        text = f"names cannot be looked up: {listed(tuple(bad))}: {bad[first]}"
    else:
        text = f"the resolver {first} is dead ({bad[first]}): look-ups wait for it before the next"
    if reach(facts) is State.DOWN or _no_way(facts, answers):
        return  # a host that reaches nothing reaches no resolver either
    yield Verdict(State.DEGRADED, Place.DNS, Sure.CERTAIN if every else Sure.LIKELY, text, (
        "cat /etc/resolv.conf", f"dig @{first} . NS +time=2 +tries=1", "resolvectl status"
    ))  # fmt: skip


def _no_way(facts: Facts, answers: tuple[Answer, ...]) -> bool:
    """Whether this host knows no way to any resolver: it has no default route."""
    pathless = all(one.heard is Heard.UNREACHABLE for one in answers)
    return pathless and facts.look is not None and not defaults(facts.look)


def _trouble(answer: Answer) -> str:
    """Return what is wrong with a resolver's answer; the root may be refused by policy."""
    if answer.heard in DEAD:
        return answer.detail or answer.heard.value
    if answer.heard is not Heard.REFUSED:
        return ""
    about_root = answer.detail.endswith(f"for {ROOT}")
    if about_root and not answer.detail.startswith(FAILED):
        return ""
    return answer.detail.removesuffix(f" for {ROOT}") or "refused"


def nameless(facts: Facts) -> Iterator[Verdict]:
    """Targets whose name no resolver knows, where the resolvers themselves are fine."""
    if facts.dns is None or any(map(_trouble, facts.dns)) or reach(facts) is State.DOWN:
        return
    for target in facts.targets or ():
        if target.address or NO_ADDRESS not in target.answer.detail:
            continue
        text = f"the name of {target.name} cannot be looked up: no resolver knows an address of it"
        yield Verdict(State.DEGRADED, Place.DNS, Sure.LIKELY, text, (
            f"getent ahosts {target.answer.target}", "cat /etc/resolv.conf", "resolvectl status"
        ))  # fmt: skip


def metadata(facts: Facts) -> Iterator[Verdict]:
    """A cloud's metadata service that is gone, or somebody else that answers in its place."""
    answers = facts.metadata or ()
    if not answers or service.verdict(answers) is Heard.ANSWERS or reach(facts) is State.DOWN:
        return
    heard = service.verdict(answers)
    shown = next(one for one in answers if one.heard is heard)
    cloud = facts.cloud or "the cloud"
    next_ = (
        f"curl -sv --noproxy '*' {shown.target}",
        "ip route get 169.254.169.254",
        "nft list ruleset",
    )
    if heard in DEAD:
        text = (
            f"the metadata service of {cloud} does not answer ({shown.detail}): a route or "
            "firewall is in the way, or the service is down; notices would be missed"
        )
        yield Verdict(State.DEGRADED, Place.BEYOND, Sure.LIKELY, text, next_)
    elif shown.detail.startswith(f"no metadata service of {facts.cloud}"):
        return
    else:
        text = (
            f"what answers as metadata service of {cloud} makes no sense "
            f"({shown.detail}): a proxy, a portal or a wrong server stands there; notices would be "
            "missed"
        )
        yield Verdict(State.DEGRADED, Place.BEYOND, Sure.LIKELY, text, next_)
