"""One diagnosis: all steps side by side, then the verdict."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from linkhold.decide.diagnosis import judged, rows
from linkhold.decide.diagnosis.seen import way_to
from linkhold.diagnose import far, kernel_log, local, near, sessions
from linkhold.diagnose.steps import Steps
from linkhold.model.diagnosis_facts import Facts
from linkhold.sensors.power_supply import supplies
from linkhold.survey import link_counters, tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.diagnose.local import Seen
    from linkhold.diagnose.plan import Plan, Sources
    from linkhold.model.diagnosis import Diagnosis
    from linkhold.model.diagnosis_facts import (
        Counted,
        FirewallFacts,
        GatewayFacts,
        LogFacts,
        MtuFacts,
        SessionFacts,
        TargetFacts,
    )

T = TypeVar("T")

WHOLE_S = 8.5
"""The end of every step: with the start of the program, a run stays below 10 s."""
GROWTH_S = 1.0
"""The least time between two looks at counters: drivers renew theirs about once a second."""
LINKS_S = 6.0
"""Nearly all steps need this one, and 100,000 routes take 1 s of it on a host that is idle."""
LOOK_S = 3.0
STEP_S = 6.0
MTU_MOST = 8


def silently(_step: str, _ended: bool) -> None:  # noqa: FBT001 - a callback
    """Show no progress."""


async def diagnose(
    plan: Plan, sources: Sources, progress: Callable[[str, bool], None] = silently
) -> Diagnosis:
    """Look at everything and return the verdict with its evidence, within ten seconds.

    ``progress`` hears the name of each step when it begins (False) and ends (True). What a step
    could not see is in the result, it raises nothing.
    """
    began = time.monotonic()
    facts = await _Run(plan, sources, Steps(progress, began + WHOLE_S)).facts(began)
    return replace(judged(facts), evidence=rows(facts), took_s=round(time.monotonic() - began, 3))


class _Run:
    """The steps of one run, and how they hang together."""

    def __init__(self, plan: Plan, sources: Sources, steps: Steps) -> None:
        self._plan = plan
        self._sources = sources
        self._steps = steps

    async def facts(self, began: float) -> Facts:
        """Return everything that was seen."""
        run = self._steps.blocking
        counting = asyncio.create_task(run("counters", link_counters.counters, LOOK_S))
        dropping = asyncio.create_task(run("firewall", local.dropped, LOOK_S))
        alone = asyncio.create_task(self._alone())
        seen = await run("links", lambda: local.look(self._plan.ignored), LINKS_S)
        early, drops = await counting, await dropping
        found = await self._linked(seen) if seen is not None else Facts()
        found = _joined(found, await alone)
        if seen is not None:
            found = replace(found, mtu=await self._mtu(seen, found))
        await asyncio.sleep(min(max(0.0, began + GROWTH_S - time.monotonic()), self._steps.left_s))
        return replace(
            found,
            firewall=await self._firewall(drops),
            counters=await self._growth(early, seen, began),
            missing=tuple(self._steps.missing),
        )

    async def _alone(self) -> Facts:
        """Run the steps that need no look at the links."""
        plan, sources, steps = self._plan, self._sources, self._steps
        reader = sources.reader
        dns = asyncio.create_task(steps.run("DNS", far.resolvers(plan, reader), STEP_S))
        targets = asyncio.create_task(steps.run("targets", far.targets(plan, reader), STEP_S))
        metadata = asyncio.create_task(steps.run("metadata", far.metadata(plan, reader), STEP_S))
        power = asyncio.create_task(steps.blocking("power", supplies, LOOK_S))
        keepalive = asyncio.create_task(self._given("keepalive", sources.keepalive))
        clock = asyncio.create_task(self._given("clock", sources.clock))
        agent = asyncio.create_task(self._given("agent", sources.agent))
        connections = asyncio.create_task(self._connections())
        cloud = await metadata
        return Facts(
            dns=await dns,
            targets=await targets,
            metadata=cloud[1] if cloud is not None else None,
            cloud=cloud[0] if cloud is not None else "",
            supplies=await power,
            keepalive=await keepalive,
            clock=await clock,
            agent=await agent,
            sessions=await connections,
        )

    async def _given(self, name: str, source: Callable[[], T] | None) -> T | None:
        return None if source is None else await self._steps.blocking(name, source, STEP_S)

    async def _connections(self) -> SessionFacts | None:
        name = "connections"
        found = await self._steps.blocking(name, lambda: sessions.look(self._sources), STEP_S)
        if found is None:
            return None
        for unseen in found[1]:
            self._steps.lack(name, unseen)
        return await self._steps.run(name, sessions.pinged(found[0]), STEP_S) or found[0]

    async def _linked(self, seen: Seen) -> Facts:
        """Run the steps that go out by the links, or ask something of them."""
        steps, reader = self._steps, self._sources.reader
        gateways = asyncio.create_task(steps.run("gateway", near.gateways(seen), STEP_S))
        members = asyncio.create_task(steps.run("bond members", near.members(seen), STEP_S))
        claims = asyncio.create_task(steps.run("addresses", near.duplicates(seen), STEP_S))
        log = asyncio.create_task(self._log(seen))
        cards = asyncio.create_task(
            steps.blocking("hardware", lambda: local.cards(reader, seen), LOOK_S)
        )
        owners = asyncio.create_task(
            steps.blocking("managers", lambda: local.owners(reader, seen), STEP_S)
        )
        fills = asyncio.create_task(
            steps.blocking("tables", lambda: tuple(tables.fills(reader, seen.look)), LOOK_S)
        )
        return Facts(
            look=seen.look,
            network=seen.network,
            nics=seen.nics,
            gateways=await gateways,
            members=await members,
            duplicates=await claims,
            log=await log,
            cards=await cards,
            owners=await owners,
            fills=await fills,
        )

    async def _log(self, seen: Seen) -> LogFacts | None:
        name, reader = "kernel log", self._sources.reader
        found = await self._steps.run(name, kernel_log.facts(self._plan, reader, seen), STEP_S)
        if found is not None and not found.whole:
            self._steps.lack(name, "too long to be read to its end, where the newest lines are")
        return found

    async def _mtu(self, seen: Seen, found: Facts) -> tuple[MtuFacts, ...] | None:
        """Send full packets to what has answered: the rest would tell nothing."""
        jobs = [
            near.path_mtu(link, target, mtu, to_gateway=to_gateway)
            for link, target, mtu, to_gateway in islice(_full_size(seen, found), MTU_MOST)
        ]
        done = await self._steps.run("path MTU", asyncio.gather(*jobs), STEP_S) if jobs else []
        return None if done is None else tuple(one for one in done if one is not None)

    async def _firewall(self, before: dict[str, int] | None) -> FirewallFacts | None:
        if before is None:
            return None
        run, reader = self._steps.blocking, self._sources.reader
        if await run("firewall", lambda: local.legacy_rules(reader), LOOK_S):
            self._steps.lack("firewall", "rules of legacy iptables are in force and not looked at")
        return await run("firewall", lambda: local.firewall(before), LOOK_S)

    async def _growth(
        self, early: dict[str, dict[str, int]] | None, seen: Seen | None, began: float
    ) -> tuple[Counted, ...] | None:
        if early is None or seen is None:
            return None
        later = await self._steps.blocking("counters", link_counters.counters, LOOK_S)
        names = [link.name for link in seen.network.links.values()]
        seconds = time.monotonic() - began
        return None if later is None else local.grown(early, later, names, seconds)


def _joined(linked: Facts, alone: Facts) -> Facts:
    """Return the facts of both halves."""
    return replace(
        linked,
        dns=alone.dns,
        targets=alone.targets,
        metadata=alone.metadata,
        cloud=alone.cloud,
        supplies=alone.supplies,
        keepalive=alone.keepalive,
        clock=alone.clock,
        agent=alone.agent,
        sessions=alone.sessions,
    )


def _full_size(seen: Seen, found: Facts) -> Iterator[tuple[str, str, int, bool]]:
    """Yield link, address, MTU and whether it is a gateway of what answered."""
    for gateway in found.gateways or ():
        yield from _from_gateway(seen, gateway)
    for target in found.targets or ():
        yield from _from_target(seen, target)


def _from_gateway(seen: Seen, gateway: GatewayFacts) -> Iterator[tuple[str, str, int, bool]]:
    link = seen.look.link(gateway.link)
    if link is not None and gateway.answer.works:
        yield gateway.link, gateway.address, link.mtu, True


def _from_target(seen: Seen, target: TargetFacts) -> Iterator[tuple[str, str, int, bool]]:
    lives = target.answer.works or (target.ping is not None and target.ping.works)
    route = way_to(seen.look, target.address) if lives and target.address else None
    link = seen.look.link(seen.look.name_of(route.indexes[0])) if route and route.indexes else None
    if link is not None:
        yield link.name, target.address, link.mtu, False
