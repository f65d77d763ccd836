"""The step that looks at training processes and at connections that do not move."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.model.diagnosis_facts import Session, SessionFacts
from linkhold.model.keepalive import Verdict
from linkhold.rtnl.inet_diag import RETRANSMISSION, ZERO_WINDOW
from linkhold.sensors import reach
from linkhold.survey.audit import audit, hidden

if TYPE_CHECKING:
    from linkhold.decide.audit import Audited
    from linkhold.diagnose.plan import Sources

OWN = Path("/proc/thread-self/ns/net")
RETRANSMITS = 2
"""One unanswered retransmission is an ordinary loss; the second comes 0.6 s later or more."""
STUCK_MOST = 50
ECHO_S = 1.0
ECHOES_MOST = 8


def look(sources: Sources) -> tuple[SessionFacts, tuple[str, ...]]:
    """Return training's connections and what was not seen of them. Blocking.

    Stuck connections count in this network namespace and of training anywhere. Raises Unavailable.
    """
    trains = sources.training()
    own = {one.pid for one in trains.processes}
    here = OWN.stat().st_ino
    seen = audit(sources.reader, trains, None if os.geteuid() == 0 or not own else own, None)
    away = [one for one in seen.found if not one.loopback]
    trained = [one for one in away if one.pid in own]
    stuck = [one for one in away if _stuck(one)]
    found = SessionFacts(
        jobs=trains.jobs,
        processes=len(trains.processes),
        connections=len(trained),
        unprotected=sum(one.verdict is Verdict.UNPROTECTED for one in trained),
        stuck=tuple(
            _session(one) for one in stuck if one.pid in own or one.connection.namespace == here
        )[:STUCK_MOST],
    )
    if not trains.unread:
        return found, seen.unseen
    return found, (*seen.unseen, f"whether training is what runs in {hidden(trains.unread)}")


def _stuck(one: Audited) -> bool:
    connection = one.connection
    if connection.timer == ZERO_WINDOW:
        return True
    return connection.timer == RETRANSMISSION and connection.retransmits >= RETRANSMITS


def _session(one: Audited) -> Session:
    return Session(
        one.connection.remote,
        one.connection.remote_port,
        one.pid,
        one.comm,
        one.kind,
        one.connection.retransmits,
        zero_window=one.connection.timer == ZERO_WINDOW,
    )


async def pinged(facts: SessionFacts) -> SessionFacts:
    """Ask the hosts of stuck connections for an echo, which tells them from their sessions."""
    hosts = tuple(dict.fromkeys(one.remote for one in facts.stuck))[:ECHOES_MOST]
    answers = await asyncio.gather(*(reach.icmp(host, ECHO_S) for host in hosts))
    known = dict(zip(hosts, answers, strict=True))
    stuck = tuple(replace(one, ping=known.get(one.remote)) for one in facts.stuck)
    return replace(facts, stuck=stuck)
