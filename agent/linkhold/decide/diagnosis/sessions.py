"""Rules about open connections: forgotten, moved, stuck, and not protected. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.diagnosis.seen import reach
from linkhold.decide.diagnosis.words import listed
from linkhold.model.diagnosis import Place, State, Sure, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.diagnosis_facts import Facts, Session, TargetFacts


def moved_address(facts: Facts) -> Iterator[Verdict]:
    """Connections that hang on an address that their name no longer has (a load balancer's)."""
    if facts.sessions is None:
        return
    for target in facts.targets or ():
        if not target.addresses or not target.answer.works:
            continue
        old = _left_behind(target, facts.sessions.stuck)
        if old:
            yield _moved(target, old)


def _left_behind(target: TargetFacts, stuck: tuple[Session, ...]) -> tuple[Session, ...]:
    return tuple(
        one for one in stuck if one.port == target.port and one.remote not in target.addresses
    )


def _moved(target: TargetFacts, old: tuple[Session, ...]) -> Verdict:
    where = listed(tuple(dict.fromkeys(one.remote for one in old)))
    text = (
        f"the address of {target.name} has changed to {listed(target.addresses)}, and "
        f"{_number(old)} still {_hang(old)} on {where}: reconnect, the network is fine"
    )
    return Verdict(State.DEGRADED, Place.BEYOND, Sure.LIKELY, text, (
        f"ss -tnpo dst {old[0].remote}", f"dig {target.name}", f"ss -K dst {old[0].remote}"
    ))  # fmt: skip


def forgotten(facts: Facts) -> Iterator[Verdict]:
    """Data that is never acknowledged by a host that answers otherwise.

    A firewall, NAT or load balancer on the way has forgotten the connection and drops its packets
    without a reset. Where the host itself is silent, it or the way to it is dead.
    """
    if facts.sessions is None or reach(facts) is State.DOWN:
        return
    moved = {
        one.remote
        for target in facts.targets or ()
        if target.addresses and target.answer.works
        for one in _left_behind(target, facts.sessions.stuck)
    }
    by_remote: dict[str, list[Session]] = {}
    for one in facts.sessions.stuck:
        if one.remote not in moved:
            by_remote.setdefault(one.remote, []).append(one)
    for remote, found in by_remote.items():
        yield _stuck(remote, tuple(found))


def _stuck(remote: str, found: tuple[Session, ...]) -> Verdict:
    what = f"{_number(found)} to {remote} ({_who(found)})"
    lively = any(one.ping is not None and one.ping.works for one in found)
    if all(one.zero_window for one in found):
        place, sure = Place.BEYOND, Sure.LIKELY
        text = (
            f"{what} {_wait(found)}: the program there takes no data (zero window), the network "
            "is fine"
        )
    elif lively:
        place, sure = Place.FIREWALL, Sure.LIKELY
        text = (
            f"{what} {_get(found)} no answer though {remote} itself answers: a firewall or load "
            "balancer on the way has forgotten the session"
        )
    else:
        place, sure = Place.BEYOND, Sure.GUESS
        text = (
            f"{what} {_get(found)} no answer, and {remote} answers no echo: it or the way to it "
            "is dead"
        )
    return Verdict(State.DEGRADED, place, sure, text, (
        f"ss -tnpoi dst {remote}", f"tracepath -n {remote}", "linkhold keepalive audit"
    ))  # fmt: skip


def unprotected(facts: Facts) -> Iterator[Verdict]:
    """Connections of training that nothing keeps alive: the next idle time may end them."""
    found = facts.sessions
    if found is None or not found.unprotected:
        return
    text = (
        f"{found.unprotected} of {found.connections} connections of "
        f"{listed(found.jobs) or 'training'} have no keepalive: a firewall that forgets idle ones "
        "cuts them, as it cuts idle SSH"
    )
    yield Verdict(State.DEGRADED, Place.HOST, Sure.LIKELY, text, (
        "linkhold keepalive audit", "linkhold keepalive plan", "linkhold survive"
    ))  # fmt: skip


def _number(found: tuple[Session, ...]) -> str:
    return "1 connection" if len(found) == 1 else f"{len(found)} connections"


def _hang(found: tuple[Session, ...]) -> str:
    return "hangs" if len(found) == 1 else "hang"


def _wait(found: tuple[Session, ...]) -> str:
    return "waits" if len(found) == 1 else "wait"


def _get(found: tuple[Session, ...]) -> str:
    return "gets" if len(found) == 1 else "get"


def _who(found: tuple[Session, ...]) -> str:
    one = found[0]
    who = f"{one.comm} {one.pid}, " if one.pid else ""
    return f"{who}{one.kind}, port {one.port}"
