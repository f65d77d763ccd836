"""A third line for the two switches, and a far target that both lines reach.

node eth0, eth1 (bond0) -- two switches -- gateway 10.0.0.1 ---- far 203.0.113.9, 2001:db8::9
node usb0 --------------------------------- modem 192.168.8.1 -- far
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.topology import TwoSwitches, ip, ip_batch

if TYPE_CHECKING:
    from typing_extensions import Self

FAR, FAR_6, PORT = "203.0.113.9", "2001:db8::9", 7
ECHO = """
import selectors, socket
chosen = selectors.DefaultSelector()
for family, address in ((socket.AF_INET, "203.0.113.9"), (socket.AF_INET6, "2001:db8::9")):
    endpoint = socket.socket(family, socket.SOCK_DGRAM)
    endpoint.bind((address, 7))
    chosen.register(endpoint, selectors.EVENT_READ)
while True:
    for key, _ in chosen.select():
        data, sender = key.fileobj.recvfrom(64)
        try:
            key.fileobj.sendto(data, sender)
        except OSError:
            pass
"""


@dataclass
class Far:
    """The far target behind gateway and modem, and the node's third line to it."""

    net: TwoSwitches
    modem: str
    far: str
    echo: subprocess.Popen[bytes] | None = None

    @classmethod
    def create(cls, net: TwoSwitches, *, metric: int = 700) -> Self:
        """Build it behind a topology that has its bond already; ``metric`` is that of usb0."""
        tag = net.gateway.removeprefix("gw-")
        made = cls(net, f"modem-{tag}", f"far-{tag}")
        ip_batch([f"netns add {made.modem}", f"netns add {made.far}"])
        for number, router in enumerate((net.gateway, made.modem)):
            made._wire(number, router)
        lines = [
            "link set lo up",
            f"addr add {FAR}/32 dev lo",
            f"addr add {FAR_6}/128 dev lo nodad",
        ]
        ip_batch(lines, ns=made.far)
        made._plug_in()
        node = [
            "addr add 192.168.8.2/24 dev usb0",
            "addr add fd08::2/64 dev usb0 nodad",
            f"route add default via 192.168.8.1 dev usb0 metric {metric}",
            f"route add ::/0 via fd08::1 dev usb0 metric {metric + 2000}",
        ]
        ip_batch(node)
        made.echo = subprocess.Popen(["ip", "netns", "exec", made.far, sys.executable, "-c", ECHO])
        return made

    def _plug_in(self) -> None:
        ip("link", "add", "usb0", "type", "veth", "peer", "name", "lan", "netns", self.modem)
        ip("link", "set", "usb0", "up")
        lan = ["addr add 192.168.8.1/24 dev lan", "addr add fd08::1/64 dev lan nodad"]
        ip_batch([*lan, "link set lan up"], ns=self.modem)

    def _wire(self, number: int, router: str) -> None:
        """Connect a router with the far side, and let it forward."""
        near = ("10.0.0.0/24", "fd00::/64") if number == 0 else ("192.168.8.0/24", "fd08::/64")
        link = f"link add wan type veth peer name w{number} netns {self.far}"
        lines = [link, f"addr add 10.1.{number}.1/24 dev wan"]
        lines += [f"addr add fd01:{number}::1/64 dev wan nodad", "link set wan up"]
        lines += [f"route add default via 10.1.{number}.2", f"route add ::/0 via fd01:{number}::2"]
        there = [f"addr add 10.1.{number}.2/24 dev w{number}", f"link set w{number} up"]
        there += [f"addr add fd01:{number}::2/64 dev w{number} nodad"]
        there += [f"route add {near[0]} via 10.1.{number}.1"]
        there += [f"route add {near[1]} via fd01:{number}::1"]
        ip_batch(lines[:4], ns=router)
        ip_batch(there, ns=self.far)
        ip_batch(lines[4:], ns=router)
        for switch in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            command = ["ip", "netns", "exec", router, "sh", "-c", f"echo 1 >/proc/sys/net/{switch}"]
            subprocess.run(command, check=True)

    def kill_switches(self) -> None:
        """Let both switches forward nothing, their link lights on."""
        for number in (0, 1):
            self.net.kill_switch(number)

    def revive_switches(self) -> None:
        """Let both switches forward again."""
        for number in (0, 1):
            self.net.revive_switch(number)


@dataclass
class Stream:
    """Echo requests by UDP to the far target, 50 a second, from whatever address the route gives.

    ``answered`` are the times (monotonic, s) at which answered requests were sent.
    """

    target: str = FAR
    answered: list[float] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        family = socket.AF_INET6 if ":" in self.target else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as endpoint:
            endpoint.settimeout(0.02)
            while not self._stop.is_set():
                sent_s = time.monotonic()
                try:
                    endpoint.sendto(b"%.9f" % sent_s, (self.target, PORT))
                    self.answered.append(float(endpoint.recv(64)))
                except OSError:
                    pass
                time.sleep(max(0.0, sent_s + 0.02 - time.monotonic()))

    def outage(self, since_s: float, until_s: float | None = None) -> float:
        """Return the longest time without an answered request after ``since_s``."""
        end_s = time.monotonic() if until_s is None else until_s
        inside = [t for t in sorted(self.answered) if since_s - 0.1 <= t <= end_s]
        times = [since_s, *inside, end_s]
        return max(later - sooner for sooner, later in itertools.pairwise(times))
