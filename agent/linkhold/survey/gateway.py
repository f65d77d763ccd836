"""Whether an address answers ARP or neighbour discovery through one NIC that has no address.

By ARP the question names no sender (0.0.0.0, RFC 5227), so it changes nobody's tables. By neighbour
discovery it names a link-local address made of the MAC that asks, which is nobody's and all that
the target remembers: from :: it would be a claim to the target's address, which the target gives
up when it is just taking it (see linkhold.frames.neighbours).

The frame's MAC is the NIC's own. On a port of a bond it is the burned-in one, so that no switch
learns the bond's MAC on a wrong port; where the bond goes by that very address (it has it from its
first port) and another port is the active one, the same with the "locally administered" bit
turned. Standard library only: the guard process uses it too.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.frames import neighbours
from linkhold.model.survey import Answer, Known
from linkhold.survey.packets import PacketPort

if TYPE_CHECKING:
    from collections.abc import Sequence

ARPHRD_ETHER = 1
SIOCGIFFLAGS, IFF_UP, IFF_RUNNING = 0x8913, 0x1, 0x40
IFNAMSIZ = 16
MAX_TARGETS = 16
LOCALLY_ADMINISTERED = 0x02
SYS_NET = Path("/sys/class/net")
# A NIC without carrier refuses frames with these: that is an answer, not a failure to ask.
NO_CARRIER_ERRORS = frozenset({errno.ENOBUFS, errno.ENETDOWN})


class _Cannot(Exception):
    """Nothing can be asked here; the text says why."""


def ask(
    interface: str,
    targets: Sequence[str],
    mac: str = "",
    timeout_s: float = 1.0,
    tries: int = 3,
) -> Answer:
    """Ask ``targets`` (IPv4 or IPv6, at most 16) through ``interface``; one answer is a yes.

    ``mac`` is what to send from; empty chooses one that misleads no switch. The question is put
    ``tries`` times within ``timeout_s``. Blocking; needs CAP_NET_RAW. The verdict is unknown when
    nothing could be asked, with the reason.
    """
    try:
        wanted = _distinct(targets)
        _check_up(interface)
        with PacketPort(interface) as port:
            source = _source(port, mac)
            port.let_in(source)
            return _Questions(port, source, wanted).put(timeout_s, max(1, tries))
    except _Cannot as reason:
        return Answer(Known.UNKNOWN, interface, reason=str(reason))
    except OSError as error:
        return Answer(Known.UNKNOWN, interface, reason=_in_words(interface, error))


def _distinct(targets: Sequence[str]) -> dict[str, int]:
    """Return each address in the kernel's spelling, with its family."""
    found: dict[str, int] = {}
    for target in targets[:MAX_TARGETS]:
        plain = target.partition("%")[0]
        family = socket.AF_INET6 if ":" in plain else socket.AF_INET
        try:
            found[socket.inet_ntop(family, socket.inet_pton(family, plain))] = family
        except OSError:
            raise _Cannot(f"{target!r} is no IP address") from None
    if not found:
        raise _Cannot("there is no address to ask")
    return found


def _check_up(interface: str) -> None:
    if not interface or len(interface.encode()) >= IFNAMSIZ:
        raise _Cannot(f"{interface!r} is no name of an interface")
    if not _flags(interface) & IFF_UP:
        raise _Cannot(f"{interface} is set down; apply sets it up and asks then")


def _flags(interface: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as any_socket:
        request = struct.pack("@16sH22x", interface.encode(), 0)
        return int(struct.unpack_from("@H", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request), 16)[0])


def _source(port: PacketPort, mac: str) -> str:
    """Return the MAC to send from."""
    if port.hardware != ARPHRD_ETHER:
        raise _Cannot(f"{port.interface} is no Ethernet interface (ARPHRD {port.hardware})")
    chosen = mac or _port_mac(port.interface) or port.mac
    try:
        return neighbours.octets(chosen).hex(":")
    except ValueError as error:
        raise _Cannot(str(error)) from None


def _port_mac(interface: str) -> str:
    """Return what to send from on a port of a bond; empty for any other interface."""
    perm = _sysfs(interface, "bonding_slave/perm_hwaddr")
    backup = _sysfs(interface, "bonding_slave/state") == "backup"
    if not perm or not backup or perm != _sysfs(interface, "master/address"):
        return perm
    return f"{int(perm[:2], 16) ^ LOCALLY_ADMINISTERED:02x}{perm[2:]}"


def _sysfs(interface: str, attribute: str) -> str:
    try:
        return (SYS_NET / interface / attribute).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class _Questions:
    """The same questions put several times, until one is answered."""

    def __init__(self, port: PacketPort, source: str, wanted: dict[str, int]) -> None:
        self._port = port
        self._interface = port.interface
        self._source = source
        self._wanted = wanted
        self._sent = 0.0
        self._error: OSError | None = None

    def put(self, timeout_s: float, tries: int) -> Answer:
        """Ask and wait; a question that cannot leave is no reason to stop asking."""
        start = time.monotonic()
        for number in range(1, tries + 1):
            self._send_all()
            found = self._wait(start + timeout_s * number / tries)
            if found is not None:
                took_ms = (time.monotonic() - self._sent) * 1000
                return Answer(Known.YES, self._interface, found.address, found.mac, took_ms)
        return self._silence(timeout_s, tries)

    def _send_all(self) -> None:
        self._sent, self._error = time.monotonic(), None
        for target in self._wanted:
            try:
                self._port.send(neighbours.probe(target, "", "", self._source))
            except OSError as error:
                self._error = error

    def _wait(self, until: float) -> neighbours.Heard | None:
        while self._port.wait(until - time.monotonic()):
            for frame in self._port.received():
                found = neighbours.heard(frame)
                if found and found.address in self._wanted and found.mac != self._source:
                    return found
        return None

    def _silence(self, timeout_s: float, tries: int) -> Answer:
        names = ", ".join(self._wanted)
        if self._error is not None and self._error.errno not in NO_CARRIER_ERRORS:
            reason = _in_words(self._interface, self._error)
            return Answer(Known.UNKNOWN, self._interface, reason=reason)
        flags = _flags(self._interface)
        if not flags & IFF_UP:
            return Answer(Known.UNKNOWN, self._interface, reason=f"{self._interface} was set down")
        reason = f"{names} did not answer {tries} times within {timeout_s:g} s"
        if not flags & IFF_RUNNING:
            reason = f"{self._interface} has no carrier"
        return Answer(Known.NO, self._interface, reason=reason)


def _in_words(interface: str, error: OSError) -> str:
    if error.errno in {errno.EPERM, errno.EACCES}:
        return "asking by ARP needs root (CAP_NET_RAW)"
    return f"{interface}: {error.strerror}"
