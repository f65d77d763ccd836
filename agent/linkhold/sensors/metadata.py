"""Whether the cloud's metadata service can be reached, over each of its addresses.

No proxies, no redirects, no names: the addresses are fixed, and the name goes in the Host header.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from linkhold.decide.metadata import Service, fold, judge, services, token_of
from linkhold.decide.notices.values import Odd
from linkhold.model.probes import Answer, Heard
from linkhold.sensors.reach.sockets import Blind, Said, timed, unanswered
from linkhold.sensors.reach.web import Request, fetch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.sensors.reach.http_message import Response

TOKEN_REFUSED = 401
LINK_LOCAL_6 = "fe80:"


async def metadata(
    vendor: str,
    *,
    asked: bool,
    timeout_s: float,
    link: str = "",
) -> tuple[Answer, ...]:
    """Ask the metadata service of ``vendor``, named as :mod:`linkhold.survey.cloud` names it.

    Without a vendor nothing is sent, unless ``asked``: then all services that are known. Link-local
    IPv6 addresses are asked through ``link``, which they need; for all others the routing table
    chooses.
    """
    chosen = services(vendor, asked=asked)
    if vendor and not chosen:
        detail = f"no metadata service of {vendor} is known"
        return (Answer("metadata", vendor, Heard.UNKNOWN, detail=detail, link=link),)
    answers = await asyncio.gather(
        *(
            _one(service, address, timeout_s, link if address.startswith(LINK_LOCAL_6) else "")
            for service in chosen
            for address in service.addresses
            if link or not address.startswith(LINK_LOCAL_6)
        )
    )
    return tuple(answers) if vendor else fold(answers)


async def _one(service: Service, address: str, timeout_s: float, link: str) -> Answer:
    shown = f"[{address}]" if ":" in address else address
    url = f"http://{shown}{service.path}"
    work = _ask(service, address, link)
    return await timed(unanswered("metadata", url, link), work, timeout_s)


async def _ask(service: Service, address: str, link: str) -> Said:
    try:
        response = await _identity(service, address, link)
        if response.status == TOKEN_REFUSED and service.token is not None:
            # A token can be refused right after it was given, while the service restarts.
            response = await _identity(service, address, link)
    except Odd as odd:
        raise Blind(f"{service.vendor}: {odd}") from None
    heard, why = judge(service.vendor, response.status, response.headers, response.body)
    return Said(heard, f"{service.vendor}: {why}")


async def _identity(service: Service, address: str, link: str) -> Response:
    headers = dict(service.headers)
    if service.token is not None:
        wanted = service.token
        given = await fetch(_request(service, wanted.path, address, link, "PUT", wanted.wanted))
        token = token_of(service, given.status, given.body)
        if token:
            headers[wanted.header] = token
    return await fetch(_request(service, service.path, address, link, "GET", headers))


def _request(
    service: Service,
    path: str,
    address: str,
    link: str,
    method: str,
    headers: Mapping[str, str],
) -> Request:
    host = service.host or (f"[{address}]" if ":" in address else address)
    return Request(f"http://{host}{path}", method, headers, address, link)
