"""Whether a gateway answers: by ARP or neighbour discovery, and by ICMP, side by side.

The first yes counts: many gateways answer no ping, and none can refuse ARP. Without CAP_NET_RAW
the kernel's neighbour table tells whether the gateway has answered the echo's own ARP.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from linkhold.frames import neighbours
from linkhold.frames.filters import advertisement_filter, arp_filter
from linkhold.frames.packet_socket import open_packet_socket
from linkhold.model.probes import Answer, Heard
from linkhold.sensors.reach.icmp import icmp
from linkhold.sensors.reach.neighbour_table import Neighbour, neighbour
from linkhold.sensors.reach.sockets import Blind, Said, index_of, timed, unanswered

if TYPE_CHECKING:
    import socket

ARPHRD_ETHER = 1
TRIES = 3
FRAME_BYTES = 256
MOST_REMEMBERED = 64

_macs: dict[tuple[str, str], str] = {}
"""Who answered last, by link and address: asked alone first, so that a fleet that asks its gateway
wakes no other machine."""


async def gateway(link: str, address: str, timeout_s: float) -> Answer:
    """Ask the gateway ``address`` through ``link``.

    It answers when it answers either question; it is silent when ARP (or ND) was put and neither
    was answered. Where that cannot be put, the neighbour table decides, or nothing does.
    """
    near = asyncio.create_task(_near(link, address, timeout_s))
    far = asyncio.create_task(icmp(address, timeout_s, link))
    tasks = {near, far}
    try:
        for done in asyncio.as_completed(tasks):
            answer = await done
            if answer.heard is Heard.ANSWERS:
                return answer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if near.result().heard is not Heard.UNKNOWN:
        return near.result()
    return await asyncio.to_thread(_by_table, near.result(), far.result(), timeout_s)


async def _near(link: str, address: str, timeout_s: float) -> Answer:
    first = unanswered("nd" if ":" in address else "arp", address, link)
    return await timed(first, _ask_link(link, address, timeout_s), timeout_s)


async def _ask_link(link: str, address: str, timeout_s: float) -> Said:
    index_of(link)
    plain = address.partition("%")[0]
    sock = _listening(link, plain)
    try:
        return await _put(sock, link, plain, timeout_s)
    finally:
        # Closing waits until no CPU uses the socket (synchronize_net in packet_release), which
        # takes 10 ms and more: never on the loop.
        asyncio.get_running_loop().run_in_executor(None, sock.close)


async def _put(sock: socket.socket, link: str, address: str, timeout_s: float) -> Said:
    hardware, own = sock.getsockname()[3:5]
    if hardware != ARPHRD_ETHER:
        raise Blind(f"{link} is no Ethernet interface (ARPHRD {hardware})")
    mac = own.hex(":")
    for _ in range(TRIES):
        known = _macs.pop((link, address), "")
        sent = time.monotonic()
        sock.send(neighbours.probe(address, known, "", mac))
        found = await _answered(sock, address, mac, timeout_s / TRIES)
        if found:
            _remember(link, address, found)
            return Said(Heard.ANSWERS, rtt_ms=round((time.monotonic() - sent) * 1000, 3))
    return Said(Heard.SILENT, f"no answer to {TRIES} questions within {timeout_s:g} s")


def _remember(link: str, address: str, mac: str) -> None:
    _macs[link, address] = mac
    while len(_macs) > MOST_REMEMBERED:
        del _macs[next(iter(_macs))]


def _listening(link: str, address: str) -> socket.socket:
    """Return a packet socket that hears only what ``address`` says of itself."""
    inet6 = ":" in address
    program = advertisement_filter((address,)) if inet6 else arp_filter((address,))
    try:
        made = open_packet_socket(program)
    except PermissionError:
        raise Blind(f"asking {address} by ARP needs CAP_NET_RAW") from None
    try:
        made.bind((link, neighbours.ETH_P_IPV6 if inet6 else neighbours.ETH_P_ARP))
    except BaseException:
        made.close()
        raise
    return made


async def _answered(sock: socket.socket, address: str, mac: str, wait_s: float) -> str:
    """Return the MAC of whoever answered for ``address``, empty when nobody did in time."""
    try:
        return await asyncio.wait_for(_hear(sock, address, mac), wait_s)
    except asyncio.TimeoutError:
        return ""


async def _hear(sock: socket.socket, address: str, mac: str) -> str:
    loop = asyncio.get_running_loop()
    while True:
        found = neighbours.heard(await loop.sock_recv(sock, FRAME_BYTES))
        if found and found.reply and found.address == address and found.destination == mac:
            return found.mac


def _by_table(near: Answer, far: Answer, timeout_s: float) -> Answer:
    """Judge by the kernel's neighbour table what could not be asked. Blocking."""
    found = neighbour(near.link, near.target.partition("%")[0])
    return judged(near, far, found, timeout_s)


def judged(near: Answer, far: Answer, found: Neighbour | None, timeout_s: float) -> Answer:
    """Return what an unanswered echo and the neighbour table say together. Pure.

    An entry confirmed while the echo was under way is an answer; one that failed, or an echo that
    made the kernel ask in vain, is silence. An older entry tells nothing of now.
    """
    table = Answer(near.how, near.target, Heard.UNKNOWN, link=near.link, detail=near.detail)
    if found is None or far.heard is Heard.UNKNOWN:
        return table
    if found.confirmed_s is not None and found.confirmed_s <= timeout_s:
        return Answer(near.how, near.target, Heard.ANSWERS, None, found.text, near.link)
    if found.vain:
        return Answer(near.how, near.target, Heard.SILENT, None, found.text, near.link)
    detail = f"{near.detail}; no echo came back, {found.text}"
    return Answer(near.how, near.target, Heard.UNKNOWN, None, detail, near.link)
