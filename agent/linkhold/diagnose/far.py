"""Steps that ask what lies beyond the gateway: targets, resolvers, the metadata service."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.deadlines import within
from linkhold.decide.diagnosis.beyond import NO_ADDRESS, ROOT
from linkhold.model import Unavailable
from linkhold.model.diagnosis_facts import TargetFacts
from linkhold.model.probes import Answer, Heard
from linkhold.sensors import reach
from linkhold.sensors.metadata import metadata as ask_metadata
from linkhold.sensors.reach.dns import RESOLV_CONF, UPSTREAMS, query
from linkhold.sensors.reach.names import HOSTS, is_address
from linkhold.sensors.reach.sockets import Blind
from linkhold.survey import cloud
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.diagnose.plan import Aim, Plan
    from linkhold.survey.files import Reader

TARGET_S = 2.0
LOOKUP_S = 1.5
DNS_S = 1.5
METADATA_S = 2.0
FILES_S = 1.5


@dataclass(frozen=True, slots=True)
class _Copies:
    """The files that tell names and resolvers, read before they are needed on the event loop."""

    texts: Mapping[str, str | None] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """Return a file's text, None for one that is not there."""
        return self.texts.get(name)


async def _copied(reader: Reader, *names: str) -> _Copies:
    """Read them in a thread: a disk that hangs holds up nothing else. Raises Unavailable."""
    reading = in_thread(lambda: {name: reader.text(name) for name in names})
    try:
        return _Copies(await within(reading, FILES_S))
    except asyncio.TimeoutError:
        late = f"{' or '.join(names)} could not be read within {FILES_S:g} s: does a disk hang?"
        raise Unavailable(late) from None


async def targets(plan: Plan, reader: Reader) -> tuple[TargetFacts, ...]:
    """Ask each target as the owner wants it asked, and its host by an echo besides."""
    files = _Copies()
    if not all(is_address(aim.host.partition("%")[0]) for aim in plan.aims):
        with contextlib.suppress(Unavailable):  # which the step of the resolvers tells
            files = await _copied(reader, HOSTS, RESOLV_CONF, UPSTREAMS)
    return tuple(await asyncio.gather(*(_target(aim, files) for aim in plan.aims)))


async def _target(aim: Aim, files: _Copies) -> TargetFacts:
    addresses = await _addresses(aim.host, files)
    if not addresses:
        answer = Answer(aim.how, aim.host, Heard.UNKNOWN, detail=NO_ADDRESS)
        return TargetFacts(aim.name, answer, port=aim.port, storage=aim.storage)
    address = addresses[0]
    answer, ping = await asyncio.gather(_asked(aim, address, files), _ping(aim, address))
    named = () if is_address(aim.host) else addresses
    return TargetFacts(aim.name, answer, address, aim.port, ping, aim.storage, named)


async def _asked(aim: Aim, address: str, files: _Copies) -> Answer:
    if aim.how == "tcp":
        return await reach.tcp(address, aim.port, TARGET_S, aim.link)
    if aim.how == "http":
        return await reach.http(aim.url, TARGET_S, aim.link, names=reach.Names(files))
    return await reach.icmp(address, TARGET_S, aim.link)


async def _ping(aim: Aim, address: str) -> Answer | None:
    return None if aim.how == "icmp" else await reach.icmp(address, TARGET_S, aim.link)


async def _addresses(host: str, files: _Copies) -> tuple[str, ...]:
    """Return what a name is now: the file of hosts first, then all that resolvers say."""
    if is_address(host.partition("%")[0]):
        return (host,)
    found: list[str] = []
    with contextlib.suppress(Blind):
        found.append(await reach.Names(files).address(host, LOOKUP_S))
    if not found:
        return ()
    asked = (_all_of(server, host) for server in reach.resolvers(files))
    for more in await asyncio.gather(*asked):
        found += more
    return tuple(dict.fromkeys(found))


async def _all_of(server: str, host: str) -> tuple[str, ...]:
    with contextlib.suppress(Blind, OSError, asyncio.TimeoutError):
        return (await within(query(server, host, "A"), LOOKUP_S)).addresses
    return ()


async def resolvers(plan: Plan, reader: Reader) -> tuple[Answer, ...]:
    """Ask each resolver for each name; without names for the root, which is nobody's business."""
    names = plan.names or (ROOT,)
    servers = reach.resolvers(await _copied(reader, RESOLV_CONF, UPSTREAMS))
    asked = (reach.dns(server, name, DNS_S) for server in servers for name in names)
    return tuple(await asyncio.gather(*asked))


async def metadata(plan: Plan, reader: Reader) -> tuple[str, tuple[Answer, ...]]:
    """Return the cloud and what its metadata service answers; nothing is sent elsewhere."""
    vendor = plan.vendor
    if vendor is None:
        vendor = (await in_thread(lambda: cloud.machine(reader)))[0]
    if not plan.metadata or not (vendor or plan.any_cloud):
        return vendor, ()
    return vendor, await ask_metadata(vendor, asked=plan.any_cloud, timeout_s=METADATA_S)
