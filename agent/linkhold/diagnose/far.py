"""Steps that ask what lies beyond the gateway: targets, resolvers, the metadata service."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from linkhold.decide.diagnosis.beyond import NO_ADDRESS, ROOT
from linkhold.model.diagnosis_facts import TargetFacts
from linkhold.model.probes import Answer, Heard
from linkhold.sensors import reach
from linkhold.sensors.metadata import metadata as ask_metadata
from linkhold.sensors.reach.dns import query
from linkhold.sensors.reach.names import is_address
from linkhold.sensors.reach.sockets import Blind
from linkhold.survey import cloud

if TYPE_CHECKING:
    from linkhold.diagnose.plan import Aim, Plan
    from linkhold.survey.files import Reader

TARGET_S = 2.0
LOOKUP_S = 1.5
DNS_S = 1.5
METADATA_S = 2.0


async def targets(plan: Plan, reader: Reader) -> tuple[TargetFacts, ...]:
    """Ask each target as the owner wants it asked, and its host by an echo besides."""
    return tuple(await asyncio.gather(*(_target(aim, reader) for aim in plan.aims)))


async def _target(aim: Aim, reader: Reader) -> TargetFacts:
    addresses = await _addresses(aim.host, reader)
    if not addresses:
        answer = Answer(aim.how, aim.host, Heard.UNKNOWN, detail=NO_ADDRESS)
        return TargetFacts(aim.name, answer, port=aim.port, storage=aim.storage)
    address = addresses[0]
    answer, ping = await asyncio.gather(_asked(aim, address, reader), _ping(aim, address))
    named = () if is_address(aim.host) else addresses
    return TargetFacts(aim.name, answer, address, aim.port, ping, aim.storage, named)


async def _asked(aim: Aim, address: str, reader: Reader) -> Answer:
    if aim.how == "tcp":
        return await reach.tcp(address, aim.port, TARGET_S, aim.link)
    if aim.how == "http":
        return await reach.http(aim.url, TARGET_S, aim.link, names=reach.Names(reader))
    return await reach.icmp(address, TARGET_S, aim.link)


async def _ping(aim: Aim, address: str) -> Answer | None:
    return None if aim.how == "icmp" else await reach.icmp(address, TARGET_S, aim.link)


async def _addresses(host: str, reader: Reader) -> tuple[str, ...]:
    """Return what a name is now: the file of hosts first, then all that resolvers say."""
    if is_address(host.partition("%")[0]):
        return (host,)
    found: list[str] = []
    with contextlib.suppress(Blind):
        found.append(await reach.Names(reader).address(host, LOOKUP_S))
    if not found:
        return ()
    asked = (_all_of(server, host) for server in reach.resolvers(reader))
    for more in await asyncio.gather(*asked):
        found += more
    return tuple(dict.fromkeys(found))


async def _all_of(server: str, host: str) -> tuple[str, ...]:
    with contextlib.suppress(Blind, OSError, asyncio.TimeoutError):
        return (await asyncio.wait_for(query(server, host, "A"), LOOKUP_S)).addresses
    return ()


async def resolvers(plan: Plan, reader: Reader) -> tuple[Answer, ...]:
    """Ask each resolver for each name; without names for the root, which is nobody's business."""
    names = plan.names or (ROOT,)
    asked = (reach.dns(server, name, DNS_S) for server in reach.resolvers(reader) for name in names)
    return tuple(await asyncio.gather(*asked))


async def metadata(plan: Plan, reader: Reader) -> tuple[str, tuple[Answer, ...]]:
    """Return the cloud and what its metadata service answers; nothing is sent elsewhere."""
    vendor = cloud.machine(reader)[0] if plan.vendor is None else plan.vendor
    if not plan.metadata or not vendor:
        return vendor, ()
    return vendor, await ask_metadata(vendor, asked=False, timeout_s=METADATA_S)
