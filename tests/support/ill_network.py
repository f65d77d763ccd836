"""A node behind a switch, with a gateway, a neighbour and a server beyond, each to be made ill.

node e0 -- pe [switch br0] -- g0 [gateway 10.0.0.1] g1 -- f0 [server 10.9.0.2, .3, .53]
                        `-- n0 [neighbour 10.0.0.7]
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.diagnose import Aim, Plan, Sources, diagnose
from linkhold.model.jobs import Training
from linkhold.survey.files import Reader
from support.answering import Server, http_answer
from support.damaged_cable import DamagedCable
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from linkhold.model.diagnosis import Diagnosis

SERVER, SECOND, RESOLVER = "10.9.0.2", "10.9.0.3", "10.9.0.53"
METADATA = "169.254.169.254"
PORT = 443
NAME = "lb.example.org"
PING = Aim("server", "icmp", SERVER)
CONNECT = Aim("store", "tcp", SERVER, PORT)
BY_NAME = Aim(NAME, "tcp", NAME, PORT)


def no_training() -> Training:
    """What other tests train beside this one is none of ours."""
    return Training()


def resolve(question: bytes) -> bytes:
    """Answer every question: a name is at the second address, the root has no address."""
    name_end = question.index(b"\0", 12)
    asked = question[12 : name_end + 5]
    if asked[0] == 0:
        return question[:2] + b"\x81\x80\0\1\0\0\0\0\0\0" + asked
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(SECOND)
    return question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + asked + record


class Resolvers(Reader):
    """This host's files, with resolvers of the test's own; without any, no file names one."""

    def __init__(self, *servers: str) -> None:
        super().__init__(Path("/"))
        self._text = "".join(f"nameserver {server}\n" for server in servers)

    def text(self, name: str) -> str | None:
        """Return a file's text."""
        if name in {"/etc/resolv.conf", "/etc/hosts"}:
            return self._text or None
        return super().text(name)


class Net:
    """The network; use it in a ``with`` statement. ``damaged``: the node's cable is a bad one."""

    def __init__(self, *, damaged: bool = False) -> None:
        self._damaged = damaged
        self._stack = ExitStack()
        self.node, self.switch, self.gateway, self.neighbour, self.server = (
            self._stack.enter_context(Namespace()) for _ in range(5)
        )
        self.servers: dict[str, Server] = {}

    def __enter__(self) -> Self:
        self.switch.ip("link add br0 type bridge forward_delay 0 mcast_snooping 0")
        self.switch.ip("link set br0 up")
        for space, name, port in (
            (self.node, "e0", "pe"),
            (self.gateway, "g0", "pg"),
            (self.neighbour, "n0", "pn"),
        ):
            if self._damaged and space is self.node:
                self._stack.enter_context(DamagedCable(space, name, self.switch, port))
            else:
                space.veth(name, port, other=self.switch)
            self.switch.ip(f"link set {port} master br0")
        self.gateway.veth("g1", "f0", other=self.server)
        self.gateway.batch("addr add 10.0.0.1/24 dev g0\naddr add 10.9.0.1/24 dev g1\n")
        self.gateway.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        self.node.batch("addr add 10.0.0.2/24 dev e0\nroute add default via 10.0.0.1\n")
        self.neighbour.batch("addr add 10.0.0.7/24 dev n0\nroute add default via 10.0.0.1\n")
        addresses = "".join(f"addr add {a}/24 dev f0\n" for a in (SERVER, SECOND, RESOLVER))
        self.server.batch(
            f"{addresses}addr add {METADATA}/32 dev lo\nroute add default via 10.9.0.1\n"
        )
        self.gateway.ip(f"route add {METADATA} via {SERVER}")
        # The audit sees a namespace by the processes in it.
        keeper = self.node.popen("sleep", "120")
        self._stack.callback(keeper.wait)
        self._stack.callback(keeper.kill)
        self._serve("dns", socket.SOCK_DGRAM, RESOLVER, 53, resolve)
        for address in (SERVER, SECOND):
            self.serve(address, PORT)
        for address in ("10.0.0.7", SERVER):
            self.node.run("ping", "-q", "-c", "1", "-W", "2", address)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _serve(self, name: str, *words: Any) -> None:
        with self.server.enter():
            self.servers[name] = self._stack.enter_context(Server(*words))

    def serve(self, address: str, port: int) -> None:
        """Have the server take connections and say nothing."""
        self._serve(f"{address}:{port}", socket.SOCK_STREAM, address, port, lambda _: None)

    def forget_after(self, idle_s: int) -> None:
        """Let the gateway be a firewall that drops what belongs to no connection it remembers.

        It forgets one that is silent for ``idle_s`` seconds (conntrack), as every firewall does.
        """
        unknown = "meta l4proto tcp ct state invalid drop"
        self.nft(self.gateway, f"chain f {{ type filter hook forward priority 0; {unknown}; }}")
        settings = (
            "net.netfilter.nf_conntrack_tcp_loose=0",  # what it does not know is invalid
            f"net.netfilter.nf_conntrack_tcp_timeout_established={idle_s}",
        )
        self.gateway.run("sysctl", "-qw", *settings)

    def serve_metadata(self, status: int, body: str) -> None:
        """Have something answer on the metadata address."""
        answer = http_answer(status, body)
        self._serve("metadata", socket.SOCK_STREAM, METADATA, 80, lambda _: answer)

    def nft(self, space: Namespace, rules: str) -> None:
        """Load rules into a namespace."""
        space.run("nft", "-f", "-", stdin=f"table inet ill {{ {rules}\n}}\n")

    def connect(self, address: str, port: int = PORT) -> socket.socket:
        """Return a connection of the node, which is open and was used once."""
        with self.node.enter():
            made = socket.create_connection((address, port), timeout=5)
        self._stack.callback(made.close)
        made.sendall(b"hello")
        return made

    def diagnose(
        self,
        *aims: Aim,
        resolvers: tuple[str, ...] = (RESOLVER,),
        training: Training | None = None,
        **plan: Any,
    ) -> Diagnosis:
        """Diagnose the node; nothing of the machine's own kernel log is looked at."""
        wanted = Plan(aims, since_s=1e-6, **{"vendor": "", **plan})
        sources = Sources(Resolvers(*resolvers), lambda: training or Training())
        return self.node.call(lambda: asyncio.run(diagnose(wanted, sources)))


def diagnosed(
    faults: Iterable[Callable[[Net], Diagnosis]], *, damaged: bool = False
) -> dict[str, Diagnosis]:
    """Return the diagnosis of each fault by name, each in a network of its own, four at once."""

    def one(fault: Callable[[Net], Diagnosis]) -> Diagnosis:
        with Net(damaged=damaged) as net:
            return fault(net)

    given = tuple(faults)
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(one, given)
        return dict(zip((fault.__name__ for fault in given), results, strict=True))
