"""Cover: keepalive for TCP sockets whose program asks for none. Which sockets, which values.

The client applies these rules to its own process, the agent to processes without a client.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from linkhold.model.keepalive import Timers

IDLE_S = 60
"""Idle time where no agent says another: it serves the known middleboxes (facts in docs)."""
INTERVAL_S = 60
PROBES = 127
"""MAX_TCP_KEEPCNT of include/net/tcp.h: cover must not be what ends a connection."""
SECONDS_MOST = 32767
"""MAX_TCP_KEEPIDLE and MAX_TCP_KEEPINTVL of include/net/tcp.h."""
CLIENT_MARK = "linkhold-client"
"""Name of the empty memfd that a process with a client holds, for the agent to see in /proc."""

_MAPPED = "::ffff:"


class Outcome(str, Enum):
    """What became of one socket.

    ``covered``: it has keepalive by us. ``own``: its program set SO_KEEPALIVE or
    TCP_USER_TIMEOUT itself. ``local``: it does not leave this machine. ``excluded``: by port or
    peer. ``refused``: the kernel did not take the values. ``unconnected``: not yet, or no longer.
    ``other``: no TCP, or it listens.
    """

    COVERED = "covered"
    OWN = "own"
    LOCAL = "local"
    EXCLUDED = "excluded"
    REFUSED = "refused"
    UNCONNECTED = "unconnected"
    OTHER = "other"


SHOWN = (Outcome.COVERED, Outcome.OWN, Outcome.LOCAL, Outcome.EXCLUDED, Outcome.REFUSED)
"""What is counted for people: connected TCP sockets."""


@dataclass(frozen=True, slots=True)
class Exclusions:
    """Sockets that are left alone: local or remote ports, addresses of peers as :func:`plain`."""

    ports: frozenset[int] = frozenset()
    peers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """A connected TCP socket: addresses as :func:`plain`, ``user_timeout_ms`` 0 when unset.

    ``timers`` are what keepalive would use, or uses where ``keepalive`` (SO_KEEPALIVE) is on.
    """

    local: str
    local_port: int
    remote: str
    remote_port: int
    keepalive: bool
    user_timeout_ms: int
    timers: Timers


def judge(socket: TcpSocket, exclusions: Exclusions) -> Outcome:
    """Return ``COVERED`` for a socket to cover, else why it is left alone.

    With TCP_USER_TIMEOUT set, that time and not the number of probes ends an idle connection
    (tcp_keepalive_timer in net/ipv4/tcp_timer.c): cover would make it die of a short outage.
    """
    if is_local(socket):
        return Outcome.LOCAL
    if not exclusions.ports.isdisjoint((socket.local_port, socket.remote_port)):
        return Outcome.EXCLUDED
    if socket.remote in exclusions.peers:
        return Outcome.EXCLUDED
    return Outcome.OWN if socket.keepalive or socket.user_timeout_ms else Outcome.COVERED


def is_local(socket: TcpSocket) -> bool:
    """Whether a connection stays in this machine: loopback, or one address at both ends.

    The kernel gives a connection to one of the machine's own addresses that same address as
    source. One bound to another own address is taken for remote, which costs a few packets on lo.
    """
    remote = socket.remote
    return remote in (socket.local, "::1") or remote.startswith("127.")


def plain(address: str) -> str:
    """Return an address as the kernel shows it, IPv4 mapped into IPv6 as IPv4, without scope."""
    if address.startswith(_MAPPED) and "." in address:
        return address[len(_MAPPED) :]
    return address.partition("%")[0]


def timers_for(idle_s: int | None) -> Timers:
    """Return the values of a covered socket for an idle time in seconds (None: not known).

    The interval is never the longer one: after an answered probe the kernel waits for the
    interval before it looks at the idle time again, so the pause between two probes of an idle
    connection is the longer of both (tcp_keepalive_timer in net/ipv4/tcp_timer.c).
    """
    time_s = IDLE_S if idle_s is None else min(max(1, idle_s), SECONDS_MOST)
    return Timers(time_s, min(INTERVAL_S, time_s), PROBES)
