"""Whether a gateway answers: by ARP or neighbour discovery, and a moment later also by ICMP.

The first yes counts: many gateways answer no ping, and none can refuse ARP. The kernel's neighbour
table is looked at when neither answers: it knows of traffic that is acknowledged (TCP's progress
confirms a neighbour, sk_dst_confirm), and of a MAC that somebody wrote in for good, behind which
nobody needs to answer ARP. Without CAP_NET_RAW it also tells whether the gateway has answered the
echo's own ARP.
"""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from functools import partial

from linkhold.deadlines import within
from linkhold.frames import neighbours
from linkhold.model.probes import Answer, Heard
from linkhold.sensors.reach.ears import FRAME_BYTES, Ears
from linkhold.sensors.reach.icmp import icmp
from linkhold.sensors.reach.neighbour_table import Neighbour, neighbour
from linkhold.sensors.reach.sockets import Blind, Said, index_of, opened, timed, unanswered

ARPHRD_ETHER = 1
DISCARD = 9
TRIES = 3
HEAD_START_S = 0.05
"""The echo is sent only when ARP or ND was not answered by then: one packet does in nearly all
cases, for the node and for the gateway of a fleet."""
MOST_REMEMBERED = 64

_macs: dict[tuple[str, str], str] = {}
"""Who answered last, by link and address: asked alone first, so that a fleet that asks its gateway
wakes no other machine."""


async def gateway(link: str, address: str, timeout_s: float, ears: Ears | None = None) -> Answer:
    """Ask the gateway ``address`` through ``link``, by sockets of ``ears`` where they are kept.

    It answers when it answers either question; it is silent when ARP (or ND) was put, neither was
    answered, and the neighbour table does not speak for it. Where ARP cannot be put, that table
    decides, or nothing does.
    """
    ears = ears or Ears(kept=False)
    start_s = min(HEAD_START_S, timeout_s / 4)
    near = asyncio.create_task(_near(link, address, timeout_s, ears))
    tasks = {near}
    try:
        await asyncio.wait(tasks, timeout=start_s)
        if near.done() and near.result().heard is Heard.ANSWERS:
            return near.result()
        far = asyncio.create_task(icmp(address, timeout_s - start_s, link))
        tasks.add(far)
        for done in asyncio.as_completed(tasks):
            answer = await done
            if answer.heard is Heard.ANSWERS:
                return answer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    judge = partial(_by_table, near.result(), far.result(), timeout_s)
    return await ears.off_loop(judge)


async def _near(link: str, address: str, timeout_s: float, ears: Ears) -> Answer:
    first = unanswered("nd" if ":" in address else "arp", address, link)
    return await timed(first, _ask_link(link, address, timeout_s, ears), timeout_s)


async def _ask_link(link: str, address: str, timeout_s: float, ears: Ears) -> Said:
    index_of(link)
    plain = address.partition("%")[0]
    sock = ears.take(link, plain)
    try:
        said = await _put(sock, link, plain, timeout_s)
    except (Blind, OSError):
        ears.drop(sock)
        raise
    except asyncio.CancelledError:
        ears.give_back(link, plain, sock)
        raise
    ears.give_back(link, plain, sock)
    return said


async def _put(sock: socket.socket, link: str, address: str, timeout_s: float) -> Said:
    hardware, own = sock.getsockname()[3:5]
    if hardware != ARPHRD_ETHER:
        raise Blind(f"{link} is no Ethernet interface (ARPHRD {hardware})")
    mac, source = own.hex(":"), _own_address(link, address)
    for _ in range(TRIES):
        known = _macs.pop((link, address), "")
        sent = time.monotonic()
        sock.send(neighbours.probe(address, known, source, mac))
        found = await _answered(sock, address, mac, timeout_s / TRIES)
        if found:
            _remember(link, address, found)
            return Said(Heard.ANSWERS, rtt_ms=round((time.monotonic() - sent) * 1000, 3))
    return Said(Heard.SILENT, f"no answer to {TRIES} questions within {timeout_s:g} s")


def _remember(link: str, address: str, mac: str) -> None:
    _macs[link, address] = mac
    while len(_macs) > MOST_REMEMBERED:
        del _macs[next(iter(_macs))]


async def _answered(sock: socket.socket, address: str, mac: str, wait_s: float) -> str:
    """Return the MAC of whoever answered for ``address``, empty when nobody did in time."""
    try:
        return await within(_hear(sock, address, mac), wait_s)
    except asyncio.TimeoutError:
        return ""


async def _hear(sock: socket.socket, address: str, mac: str) -> str:
    loop = asyncio.get_running_loop()
    while True:
        found = neighbours.heard(await loop.sock_recv(sock, FRAME_BYTES))
        if found and found.reply and found.address == address and found.destination == mac:
            return found.mac


def _by_table(near: Answer, far: Answer, timeout_s: float) -> Answer:
    """Judge by the kernel's neighbour table. Blocking: it may wait for the kernel's RTNL lock."""
    found = neighbour(near.link, near.target.partition("%")[0])
    return judged(near, far, found, timeout_s)


def judged(near: Answer, far: Answer, found: Neighbour | None, timeout_s: float) -> Answer:
    """Return what unanswered questions and the neighbour table say together. Pure.

    An entry confirmed while the echo was under way is an answer; one that failed, or an echo that
    made the kernel ask in vain, is silence. An older entry tells nothing of now. After ARP in vain
    the table only excuses: no silence counts while traffic goes, or where the entry is for good.
    """
    if near.heard is not Heard.UNKNOWN:
        excuse = _excuse(found, timeout_s)
        return replace(near, heard=Heard.UNKNOWN, detail=excuse) if excuse else near
    table = Answer(near.how, near.target, Heard.UNKNOWN, link=near.link, detail=near.detail)
    if found is None or far.heard is Heard.UNKNOWN:
        return table
    if found.confirmed_s is not None and found.confirmed_s <= timeout_s:
        return Answer(near.how, near.target, Heard.ANSWERS, None, found.text, near.link)
    if found.vain:
        return Answer(near.how, near.target, Heard.SILENT, None, found.text, near.link)
    detail = f"{near.detail}; no echo came back, {found.text}"
    return Answer(near.how, near.target, Heard.UNKNOWN, None, detail, near.link)


def _excuse(found: Neighbour | None, timeout_s: float) -> str:
    """Return why silence does not count, empty when it does."""
    if found is None:
        return ""
    if found.fixed:
        return f"it answers nothing, and {found.text}: nobody needs to answer for that"
    if found.confirmed_s is not None and found.confirmed_s <= timeout_s:
        return "it answers nothing, but traffic through it is acknowledged"
    return ""


def _own_address(link: str, address: str) -> str:
    """Return the IPv4 address that the kernel would ask from; empty where it has none.

    A router that answers for an address by proxy ARP answers no question without a sender (the
    first branch of arp_process, net/ipv4/arp.c). IPv6 needs none: see linkhold.frames.neighbours.
    """
    if ":" in address:
        return ""
    try:
        with opened(socket.AF_INET, socket.SOCK_DGRAM, link) as made:
            made.connect((address, DISCARD))  # sends nothing
            return str(made.getsockname()[0])
    except (Blind, OSError):
        return ""
