"""Whether an address answers ARP or neighbour discovery through one NIC that has no address.

AF_PACKET, packet(7). The question names no sender (0.0.0.0 as in RFC 5227, :: as for a duplicate
address test), so it changes nobody's tables. The frame's MAC is the NIC's own. On a port of a bond
it is the burned-in one, so that no switch learns the bond's MAC on a wrong port; where the bond
goes by that very address (it has it from its first port) and another port is the active one, the
same with the "locally administered" bit turned. Frames to a backup port reach only sockets that are
bound to it (RX_HANDLER_EXACT in bond_main.c). Standard library only: the guard process uses it too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import select
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from linkhold.model.survey import Answer, Known
from linkhold.survey import frames

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP, PACKET_AUXDATA = 1, 8
PACKET_MR_MULTICAST, PACKET_MR_UNICAST = 0, 3
PACKET_OUTGOING = 4
TP_STATUS_VLAN_VALID = 0x10
ARPHRD_ETHER = 1
SIOCGIFFLAGS, IFF_UP, IFF_RUNNING = 0x8913, 0x1, 0x40
SO_ATTACH_FILTER = 26
IFNAMSIZ = 16
MAX_TARGETS = 16
LOCALLY_ADMINISTERED = 0x02
SYS_NET = Path("/sys/class/net")
FRAME_BYTES = 2048

_MEMBERSHIP = struct.Struct("@iHH8s")
_AUXDATA = struct.Struct("@IIIHHHH")
_INSTRUCTION = struct.Struct("@HBBI")
_PROGRAM = struct.Struct("@HP")

# Lets ICMPv6 neighbour advertisements through, nothing else (linux/filter.h: code, jt, jf, k).
ADVERTISEMENTS = (
    (0x30, 0, 0, 20),  # next header
    (0x15, 0, 3, socket.IPPROTO_ICMPV6),
    (0x30, 0, 0, 54),  # ICMPv6 type
    (0x15, 0, 1, frames.ND_ADVERTISEMENT),
    (0x06, 0, 0, FRAME_BYTES),
    (0x06, 0, 0, 0),
)


class _Port(NamedTuple):
    """A socket on one NIC for one protocol, and the MAC that it sends from."""

    endpoint: socket.socket
    mac: bytes


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
        with contextlib.ExitStack() as stack:
            ports = _open(interface, mac, wanted, stack)
            return _Questions(interface, ports, wanted).put(timeout_s, max(1, tries))
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


def _open(
    interface: str, mac: str, wanted: dict[str, int], stack: contextlib.ExitStack
) -> dict[int, _Port]:
    """Return a socket for each address family that is asked."""
    kinds = {socket.AF_INET: frames.ETH_P_ARP, socket.AF_INET6: frames.ETH_P_IPV6}
    ports = {}
    for family in set(wanted.values()):
        # Of no protocol until the filter is there: else it fills with what others talk.
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        endpoint = stack.enter_context(made)
        endpoint.setblocking(False)
        if family == socket.AF_INET6:
            _attach(endpoint, ADVERTISEMENTS)
        endpoint.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        endpoint.bind((interface, kinds[socket.AddressFamily(family)]))
        ports[family] = _Port(endpoint, _prepared(endpoint, interface, mac))
    return ports


def _prepared(endpoint: socket.socket, interface: str, mac: str) -> bytes:
    """Let the answers in, and return the MAC to send from."""
    name = endpoint.getsockname()
    if name[3] != ARPHRD_ETHER:
        raise _Cannot(f"{interface} is no Ethernet interface (ARPHRD {name[3]})")
    chosen = mac or _port_mac(interface)
    try:
        source = frames.mac_bytes(chosen) if chosen else bytes(name[4])
    except ValueError as error:
        raise _Cannot(str(error)) from None
    index = socket.if_nametoindex(interface)
    groups = [(PACKET_MR_MULTICAST, frames.ALL_NODES_MAC)]
    groups += [(PACKET_MR_UNICAST, source)] if source != name[4] else []
    for kind, address in groups:
        request = _MEMBERSHIP.pack(index, kind, len(address), address)
        endpoint.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
    return source


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


def _attach(endpoint: socket.socket, program: tuple[tuple[int, int, int, int], ...]) -> None:
    code = bytearray(b"".join(_INSTRUCTION.pack(*line) for line in program))
    address = _address_of(code)
    endpoint.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, _PROGRAM.pack(len(program), address))


def _address_of(buffer: bytearray) -> int:
    import ctypes  # noqa: PLC0415 - half a MiB that only an IPv6 question needs

    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class _Questions:
    """The same questions put several times, until one is answered."""

    def __init__(self, interface: str, ports: dict[int, _Port], wanted: dict[str, int]) -> None:
        self._interface = interface
        self._ports = ports
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
                mac = found.mac.hex(":")
                return Answer(Known.YES, self._interface, found.address, mac, took_ms)
        return self._silence(timeout_s, tries)

    def _send_all(self) -> None:
        self._sent, self._error = time.monotonic(), None
        for target, family in self._wanted.items():
            port = self._ports[family]
            try:
                port.endpoint.send(_question(port.mac, target, family))
            except OSError as error:
                self._error = error

    def _wait(self, until: float) -> frames.Neighbour | None:
        endpoints = [port.endpoint for port in self._ports.values()]
        while (left := until - time.monotonic()) > 0:
            for ready in select.select(endpoints, [], [], left)[0]:
                for found in _received(ready):
                    if found.address in self._wanted and not self._is_ours(found.mac):
                        return found
        return None

    def _is_ours(self, mac: bytes) -> bool:
        return any(port.mac == mac for port in self._ports.values())

    def _silence(self, timeout_s: float, tries: int) -> Answer:
        names = ", ".join(self._wanted)
        if self._error is not None and self._error.errno not in {errno.ENOBUFS, errno.ENETDOWN}:
            reason = _in_words(self._interface, self._error)
            return Answer(Known.UNKNOWN, self._interface, reason=reason)
        flags = _flags(self._interface)
        if not flags & IFF_UP:
            return Answer(Known.UNKNOWN, self._interface, reason=f"{self._interface} was set down")
        reason = f"{names} did not answer {tries} times within {timeout_s:g} s"
        if not flags & IFF_RUNNING:
            reason = f"{self._interface} has no carrier"
        return Answer(Known.NO, self._interface, reason=reason)


def _question(mac: bytes, target: str, family: int) -> bytes:
    if family == socket.AF_INET6:
        return frames.solicitation(mac, target)
    return frames.arp(frames.ARP_REQUEST, (mac, "0.0.0.0"), (bytes(6), target))  # noqa: S104 - RFC 5227


def _received(endpoint: socket.socket) -> Iterator[frames.Neighbour]:
    """Yield what waits in the socket; not our own frames, and none of a VLAN."""
    with contextlib.suppress(BlockingIOError):
        while True:
            data, extra, _, sender = endpoint.recvmsg(FRAME_BYTES, 64)
            found = frames.neighbour(data)
            if found and sender[2] != PACKET_OUTGOING and not _vlan(extra):
                yield found


def _vlan(extra: list[tuple[int, int, bytes]]) -> int:
    """Return the VLAN that the frame was tagged with; the kernel takes the tag out of it."""
    for level, kind, data in extra:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA) and len(data) >= _AUXDATA.size:
            status, tag = _AUXDATA.unpack_from(data)[0], _AUXDATA.unpack_from(data)[5]
            return int(tag & 0xFFF) if status & TP_STATUS_VLAN_VALID else 0
    return 0


def _in_words(interface: str, error: OSError) -> str:
    if error.errno in {errno.EPERM, errno.EACCES}:
        return "asking by ARP needs root (CAP_NET_RAW)"
    return f"{interface}: {error.strerror}"
