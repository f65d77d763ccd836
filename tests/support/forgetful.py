"""A client and a server with a firewall between them that forgets idle connections."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from support.netns import Namespace

if TYPE_CHECKING:
    from typing_extensions import Self

PEER = Path(__file__).with_name("idle_peer.py")
SERVER = "10.99.0.2"
RULES = """
table inet firewall {
 set cut { type inet_service; }
 chain forward {
  type filter hook forward priority 0; policy accept;
  tcp sport @cut drop
  tcp dport @cut drop
  meta l4proto tcp ct state invalid reject with tcp reset
 }
}
"""


class End:
    """A process of :mod:`support.idle_peer` in a namespace."""

    def __init__(self, namespace: Namespace, *arguments: str, device: str = "") -> None:
        command = [f"GLOO_SOCKET_IFNAME={device}", sys.executable, str(PEER), *arguments]
        self.process = subprocess.Popen(
            namespace.command("env", *command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def ready(self) -> Self:
        """Wait until its connections are open."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line.strip() != "ready":
            self.process.kill()
            raise AssertionError(f"{line}{self.process.communicate()[1]}")
        return self

    def go(self) -> None:
        """Have it use its idle connections."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def fate(self) -> dict[str, str]:
        """Return ``alive`` or ``dead`` for each of its connections."""
        try:
            output, _ = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, _ = self.process.communicate()
        return {line.split()[0]: line.split()[1] for line in output.splitlines()}

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class Forgetful:
    """``clients`` and a ``server`` namespace, routed by one that can be told to forget."""

    def __init__(self, clients: int) -> None:
        self._stack = ExitStack()
        self.middle, self.server, *self.clients = (
            self._stack.enter_context(Namespace()) for _ in range(clients + 2)
        )

    def __enter__(self) -> Self:
        self._connect(self.server, 99, "s0")
        for number, client in enumerate(self.clients):
            self._connect(client, 100 + number, f"c{number}")
        self.middle.run("nft", "-f", "-", stdin=RULES)  # from here on conntrack follows
        self.middle.run(
            "sysctl",
            "-qw",
            "net.ipv4.ip_forward=1",
            "net.netfilter.nf_conntrack_tcp_loose=0",  # what it does not know is invalid
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def end(self, namespace: Namespace, *arguments: str) -> End:
        """Start a process; it ends with this."""
        end = End(namespace, *arguments, device="e0")
        self._stack.callback(end.close)
        return end

    def forget_after(self, idle_s: int) -> None:
        """Forget connections that are silent for ``idle_s`` s after their next packet."""
        name = "net.netfilter.nf_conntrack_tcp_timeout_established"
        self.middle.run("sysctl", "-qw", f"{name}={idle_s}")

    def cut(self, *ports: int, on: bool) -> None:
        """Begin or end an outage of the connections with these ports."""
        verb, elements = "add" if on else "delete", ", ".join(map(str, ports))
        self.middle.run("nft", verb, "element", "inet", "firewall", "cut", f"{{ {elements} }}")

    def _connect(self, namespace: Namespace, net: int, port: str) -> None:
        namespace.veth("e0", port, other=self.middle)
        self.middle.ip(f"addr add 10.{net}.0.1/24 dev {port}")
        namespace.ip(f"addr add 10.{net}.0.2/24 dev e0")
        namespace.ip(f"route add default via 10.{net}.0.1")


def started(pid: int) -> int:
    """Return field 22 of /proc/PID/stat, which with the pid identifies a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def sleep_until(end_s: float) -> None:
    """Sleep until a time of time.monotonic()."""
    time.sleep(max(0.0, end_s - time.monotonic()))
