"""Sends path probes through single members of bonds and hears the answers there.

AF_PACKET sockets bound to one protocol of one port: frames for the kernel and frames that are
sent never pass them, and a filter in the kernel lets only the targets' answers wake us. A socket
bound to an inactive port of a bond hears what arrives there though the bond drops it
(RX_HANDLER_EXACT, net/core/dev.c).
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.decide.probing import Answer
from linkhold.frames import neighbours
from linkhold.frames.filters import advertisement_filter, arp_filter
from linkhold.frames.packet_socket import open_packet_socket, receive_for, receive_no_more

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.probing import SendProbe, Sights
    from linkhold.decide.probing.values import BondSight

RECEIVE_BYTES = 32 << 10
FRAME_BYTES = 256
SYSFS = Path("/sys/class/net")
IFF_PROMISC = 0x100  # linux/if.h
BATCH_FRAMES = 64
"""One wake-up of the loop reads no more; what is left wakes it again."""


@dataclass(frozen=True, slots=True)
class _Port:
    """What a socket is for; another one is opened when any of it changes."""

    bond: str
    member: str
    index: int
    protocol: int
    mac: str
    standby_mac: str
    targets: tuple[str, ...]
    gentle: bool


class PathProbes:
    """The sockets of all members that are probed. Register :meth:`fileno` for reading.

    ``problems`` says by bond why it cannot be probed; ``promiscuous`` are NICs without a filter
    for the standby's MAC, which are or (``gentle``) would be promiscuous. ``counters``: probes
    sent, answers, frames that made no sense, sends that failed.
    """

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter(
            probes_sent=0, probe_answers=0, probe_frames_malformed=0, probe_send_failures=0
        )
        self.problems: dict[str, str] = {}
        self.promiscuous: set[str] = set()
        self._poll = select.epoll()
        self._ports: dict[_Port, socket.socket] = {}
        self._by_number: dict[int, _Port] = {}

    def fileno(self) -> int:
        """Return a descriptor that is readable while an answer waits."""
        return self._poll.fileno()

    def close(self) -> None:
        """Close every socket; a second call does nothing."""
        for port in list(self._ports):
            self._close(port)
        self._poll.close()

    def watch(self, sights: Sights, *, gentle: bool = False) -> None:
        """Have exactly the sockets that these bonds need.

        ``gentle``: leave no NIC promiscuous. Where a standby cannot hear its answers then, its
        path stays unknown.
        """
        wanted = {port for bond in sights.bonds for port in _ports(bond, gentle=gentle)}
        for port in self._ports.keys() - wanted:
            self._close(port)
        self.problems = {}
        for port in wanted - self._ports.keys():
            try:
                self._open(port)
            except OSError as error:
                self.problems[port.bond] = f"cannot probe {port.member}: {error.strerror}"

    def _open(self, port: _Port) -> None:
        sock = open_packet_socket(_filter(port))
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            sock.bind((port.member, port.protocol))
            if port.standby_mac not in {"", port.mac}:
                self._receive_for_standby(sock, port)
        except OSError:
            sock.close()
            raise
        self._ports[port] = sock
        self._by_number[sock.fileno()] = port
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _receive_for_standby(self, sock: socket.socket, port: _Port) -> None:
        """Let the NIC hear what is sent to its standby's MAC. Only the kernel knows what it costs.

        So a gentle one tries it, looks, and takes it back within the instant.
        """
        before = _is_promiscuous(port)
        if port.gentle and (before is None or port.member in self.promiscuous):
            return
        receive_for(sock, port.index, port.standby_mac)
        if before is False and _is_promiscuous(port):
            self.promiscuous.add(port.member)
            if port.gentle:
                receive_no_more(sock, port.index, port.standby_mac)

    def _close(self, port: _Port) -> None:
        sock = self._ports.pop(port)
        del self._by_number[sock.fileno()]
        sock.close()  # which takes it out of the epoll instance too

    def send(self, probe: SendProbe) -> bool:
        """Send one probe; False when the port cannot send now."""
        protocol = _protocol(probe.target.address)
        sock = next(
            (
                sock
                for port, sock in self._ports.items()
                if port.index == probe.index and port.protocol == protocol
            ),
            None,
        )
        target = probe.target
        source = "" if probe.standby else target.source
        if sock is None or not probe.source_mac:
            self.counters["probe_send_failures"] += 1
            return False
        frame = neighbours.probe(
            target.address, probe.target_mac, source, probe.source_mac, target.vlan_id
        )
        try:
            sock.send(frame)
        except OSError:  # no carrier, queue full: as good as lost
            self.counters["probe_send_failures"] += 1
            return False
        self.counters["probes_sent"] += 1
        return True

    def read(self) -> Iterator[Answer]:
        """Yield the answers that wait, of at most 64 frames."""
        left = BATCH_FRAMES
        for number, _ in self._poll.poll(0):
            port = self._by_number.get(number)
            while port is not None and left:
                frame = self._receive(self._ports[port])
                if frame is None:
                    break
                left -= 1
                answer = self._answer(port, frame)
                if answer is not None:
                    yield answer
                if port not in self._ports:
                    break

    def _receive(self, sock: socket.socket) -> bytes | None:
        with contextlib.suppress(OSError):  # nothing waits, or the port went down (ENETDOWN, once)
            return sock.recv(FRAME_BYTES)
        return None

    def _answer(self, port: _Port, frame: bytes) -> Answer | None:
        heard = neighbours.heard(frame)
        if heard is None or heard.address not in port.targets:
            self.counters["probe_frames_malformed"] += 1
            return None
        ours = heard.destination in {port.mac, port.standby_mac}
        self.counters["probe_answers"] += heard.reply and ours
        solicited = heard.reply and ours
        return Answer(port.bond, port.member, heard.address, heard.mac, solicited=solicited)


def _is_promiscuous(port: _Port) -> bool | None:
    """Tell what the kernel's own flags say; None where sysfs is another network namespace's.

    What ``ip link`` shows and an ioctl returns leaves this flag out (``dev_get_flags``).
    """
    folder = SYSFS / port.member
    try:
        if int((folder / "ifindex").read_text(encoding="ascii")) != port.index:
            return None
        return bool(int((folder / "flags").read_text(encoding="ascii"), 16) & IFF_PROMISC)
    except (OSError, ValueError):
        return None


def _ports(bond: BondSight, *, gentle: bool) -> Iterator[_Port]:
    for family in (neighbours.ETH_P_ARP, neighbours.ETH_P_IPV6):
        targets = tuple(t.address for t in bond.targets if _protocol(t.address) == family)
        if targets:
            for member in bond.members:
                macs = (member.mac, member.standby_mac)
                yield _Port(bond.name, member.name, member.index, family, *macs, targets, gentle)


def _protocol(address: str) -> int:
    return neighbours.ETH_P_IPV6 if ":" in address else neighbours.ETH_P_ARP


def _filter(port: _Port) -> bytes:
    arp = port.protocol == neighbours.ETH_P_ARP
    return arp_filter(port.targets) if arp else advertisement_filter(port.targets)
