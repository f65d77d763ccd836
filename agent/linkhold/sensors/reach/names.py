"""Addresses of the owner's targets that are given by name: never by a call that blocks.

The C library's own look-up cannot be given a deadline. So /etc/hosts is read, then all resolvers
are asked side by side; while none answers, the address of before is used, since a dead DNS must not
make a living target look dead. Search domains are not tried: names must be complete.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING

from linkhold.deadlines import within
from linkhold.sensors.reach.dns import Texts, query, resolvers
from linkhold.sensors.reach.sockets import Blind

if TYPE_CHECKING:
    from linkhold.sensors.reach.dns_message import Reply

HOSTS = "/etc/hosts"
MOST_REMEMBERED = 256
LOOKUP_S = 2.0


class Names:
    """Looks names up and remembers what they were. Belongs to one event loop."""

    def __init__(self, reader: Texts) -> None:
        self._reader = reader
        self._known: dict[str, str] = {}
        self._looking: dict[str, asyncio.Task[None]] = {}

    async def address(self, host: str, wait_s: float) -> str:
        """Return an IP address of ``host``; raises :class:`Blind` where none is known in time.

        One that was found before is returned at once, and looked up anew for the next time: a
        resolver that is silent must not use up the deadline of the probe that needs the name.
        """
        name = host.lower().removesuffix(".")
        listed = self._from_hosts(name)
        if listed:
            return listed
        task = self._looking.get(name) or self._look(name)
        if name not in self._known:
            await asyncio.wait({task}, timeout=wait_s)
        if name not in self._known:
            raise Blind(f"no address of {host} is known: no resolver told one in time")
        return self._known[name]

    def _look(self, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._learn(name))
        self._looking[name] = task
        task.add_done_callback(lambda _: self._looking.pop(name, None))
        return task

    async def _learn(self, name: str) -> None:
        found = await self._asked(name)
        if not found:
            return
        self._known.pop(name, None)
        self._known[name] = found
        while len(self._known) > MOST_REMEMBERED:
            del self._known[next(iter(self._known))]

    def _from_hosts(self, name: str) -> str:
        for line in (self._reader.text(HOSTS) or "").splitlines():
            words = line.partition("#")[0].lower().split()
            if name in words[1:] and is_address(words[0]):
                return words[0]
        return ""

    async def _asked(self, name: str) -> str:
        servers = resolvers(self._reader)
        for qtype in ("A", "AAAA"):
            tasks = [asyncio.create_task(_query(server, name, qtype)) for server in servers]
            try:
                for done in asyncio.as_completed(tasks):
                    reply = await done
                    if reply is not None and reply.addresses:
                        return reply.addresses[0]
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return ""


async def _query(server: str, name: str, qtype: str) -> Reply | None:
    try:
        return await within(query(server, name, qtype), LOOKUP_S)
    except (Blind, OSError, asyncio.TimeoutError):
        return None


def is_address(host: str) -> bool:
    """Tell whether ``host`` is an IP address and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def address_of(host: str, names: Names | None, timeout_s: float) -> str:
    """Return the address to ask; raises :class:`Blind` for a name that nobody looks up.

    A look-up may take half of the probe's ``timeout_s``: what is left must do for the probe.
    """
    if is_address(host):
        return host
    if names is None:
        raise Blind(f"{host} is a name, and names are not looked up here")
    return await names.address(host, timeout_s / 2)
