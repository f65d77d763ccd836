"""Two nodes on either side of a router, and the two faults that the bench ``interruptions`` plays.

node a: eth0 10.9.1.2/24 -- 10.9.1.1 router 10.9.2.1 -- eth0 10.9.2.2/24 :node b
"""

from __future__ import annotations

from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from support.netns import Namespace

if TYPE_CHECKING:
    from typing_extensions import Self

ADDRESSES = ("10.9.1.2", "10.9.2.2")
GATEWAYS = ("10.9.1.1", "10.9.2.1")
FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


class Kind(str, Enum):
    """How the network fails: seen by the node, or somewhere on the way."""

    CABLE = "cable"
    """Node a loses carrier."""
    SILENT = "silent"
    """The router drops what it should forward; each node's own gateway still answers."""


class Network:
    """Three network namespaces, gone with this object and with the process."""

    def __init__(self) -> None:
        self.nodes = (Namespace(), Namespace())
        self._router = Namespace()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for namespace in (*self.nodes, self._router):
                stack.enter_context(namespace)
            for number, node in enumerate(self.nodes):
                port = f"port{number}"
                # An odd number of links first: equal indices at both ends of a cable look like
                # one plain device to the kernel, which then tells of carrier late.
                self._router.veth(f"spare{number}", f"more{number}", up=False)
                node.veth("eth0", port, other=self._router)
                node.ip(f"addr add {ADDRESSES[number]}/24 dev eth0")
                node.ip(f"route add default via {GATEWAYS[number]} dev eth0")
                self._router.ip(f"addr add {GATEWAYS[number]}/24 dev {port}")
            self._port = self._router.index("port0")
            self.mend(Kind.SILENT)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def cut(self, kind: Kind) -> None:
        """Let the fault begin."""
        self._set(kind, works=False)

    def mend(self, kind: Kind) -> None:
        """Let the fault end."""
        self._set(kind, works=True)

    def _set(self, kind: Kind, *, works: bool) -> None:
        if kind is Kind.CABLE:
            self._router.flip(self._port, up=works)
        else:
            with self._router.enter():
                FORWARD.write_text(f"{works:d}\n")
