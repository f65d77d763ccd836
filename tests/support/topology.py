"""Two switches, a core and a gateway out of veth pairs and bridges, and the faults they can have.

    node eth0 -- p [sw0 br0] u0 -- d0 [core br0] g1 -- g0 [gateway 10.0.0.1, fd00::1]
    node eth1 -- p [sw1 br0] u0 -- d1 [core br0]

It works wherever ``ip netns`` does: in the lab's guest the node is the scenario's own network
namespace, on a host the node must be a namespace with a name (``create(node=...)``), so that no
test can touch the network of the machine.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from support.probes import Probe

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

NODE_4, NODE_6 = "10.0.0.2", "fd00::2"
GATEWAY_4, GATEWAY_6 = "10.0.0.1", "fd00::1"
GATEWAY_MAC = "02:00:00:00:00:01"
NODE_MACS = ("02:00:00:00:01:00", "02:00:00:00:01:01")
NICS = ("eth0", "eth1")

_numbers = itertools.count(1)


def ip(*words: str, ns: str | None = None, lines: str | None = None) -> str:
    """Run ``ip``, in namespace ``ns`` if given; ``lines`` feeds ``-batch``. Return its output."""
    where = ["-n", ns] if ns else []
    return _run(["ip", *where, *words], lines)


def ip_batch(lines: list[str], ns: str | None = None) -> None:
    """Run several ``ip`` commands in one process; the first that fails ends the batch."""
    ip("-batch", "-", ns=ns, lines="\n".join(lines))


def wait_until(
    true: Callable[[], object], what: str, *, timeout_s: float = 5.0, every_s: float = 0.01
) -> float:
    """Wait until ``true()`` is, and return the seconds it took; TimeoutError names ``what``."""
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > timeout_s:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(every_s)
    return time.monotonic() - began


@dataclass(frozen=True)
class Bond:
    """A bond made with plain ``ip`` commands; ``node`` is the namespace it stands in."""

    name: str
    node: str | None

    def read(self, option: str) -> str:
        """Return one file of the bond's folder in sysfs, such as ``active_slave``."""
        path = f"/sys/class/net/{self.name}/bonding/{option}"
        if self.node is None:
            return Path(path).read_text(encoding="ascii").strip()
        # `ip netns exec` mounts the sysfs of that namespace.
        return _run(["ip", "netns", "exec", self.node, "cat", path]).strip()

    @property
    def active(self) -> str:
        """Return the name of the active member, empty if there is none."""
        return self.read("active_slave")

    def wait_active(self, member: str, timeout_s: float = 5.0) -> float:
        """Wait until ``member`` is the active one; return the seconds it took."""
        return wait_until(
            lambda: self.active == member, f"{member} active in {self.name}", timeout_s=timeout_s
        )


@dataclass(frozen=True)
class TwoSwitches:
    """A node with two NICs, each on a switch of its own, and one gateway behind both.

    ``switches``, ``core`` and ``gateway`` are names of network namespaces, unique to this
    topology; ``node`` is None for the present namespace. The gateway has a namespace of its own,
    since with its address in a switch Linux would answer ARP there and hide a dead uplink.
    """

    node: str | None
    switches: tuple[str, str]
    core: str
    gateway: str

    @classmethod
    def create(cls, node: str | None = None) -> TwoSwitches:
        """Build it: NICs up, without addresses, all cables plugged."""
        if node is None and "LINKHOLD_LAB" not in os.environ:
            raise ValueError("name a namespace for the node: this one is the machine's own")
        tag = f"{os.getpid()}-{next(_numbers)}"
        switches = (f"sw0-{tag}", f"sw1-{tag}")
        made = cls(node, switches, f"core-{tag}", f"gw-{tag}")
        try:
            made._build()
        except BaseException:
            made.close()
            raise
        return made

    def _build(self) -> None:
        ip_batch([f"netns add {ns}" for ns in (*self.switches, self.core, self.gateway)])
        ip_batch(
            [*_bridge(), f"link add g1 type veth peer name g0 netns {self.gateway}", *_port("g1")],
            ns=self.core,
        )
        for number, switch in enumerate(self.switches):
            uplink = f"link add u0 type veth peer name d{number} netns {self.core}"
            ip_batch([*_bridge(), uplink, *_port("u0")], ns=switch)
        ip_batch([*_port("d0"), *_port("d1")], ns=self.core)
        self._plug_in_nics()
        for switch in self.switches:
            ip_batch(_port("p"), ns=switch)
        ip_batch(
            [f"link set g0 address {GATEWAY_MAC} up", *_addresses("g0", gateway=True)],
            ns=self.gateway,
        )
        wait_until(lambda: all(map(self.carrier, NICS)), "carrier on both NICs")

    def _plug_in_nics(self) -> None:
        lines = []
        for nic, mac, switch in zip(NICS, NODE_MACS, self.switches, strict=True):
            lines += [
                f"link add {nic} address {mac} type veth peer name p netns {switch}",
                f"link set {nic} up",
            ]
        ip_batch(lines, ns=self.node)

    def close(self) -> None:
        """Remove the namespaces and with them every cable; harmless when some are gone."""
        for ns in (*self.switches, self.core, self.gateway):
            subprocess.run(["ip", "netns", "del", ns], capture_output=True, check=False)

    def pull_cable(self, number: int) -> None:
        """Take the carrier from NIC ``number``."""
        ip("link", "set", "p", "down", ns=self.switches[number])

    def plug_cable(self, number: int) -> None:
        """Give the carrier back."""
        ip("link", "set", "p", "up", ns=self.switches[number])

    def kill_switch(self, number: int) -> None:
        """Let switch ``number`` forward nothing while the NIC's link light stays on."""
        ip("link", "set", "u0", "nomaster", ns=self.switches[number])

    def revive_switch(self, number: int) -> None:
        """Let the switch forward again."""
        ip("link", "set", "u0", "master", "br0", ns=self.switches[number])

    def loss(self, number: int, percent: float, delay_ms: float = 0) -> None:
        """Lose ``percent`` of the frames on the uplink of switch ``number``, each way.

        ``delay_ms`` delays the others, each way too. Zero and zero make the path whole again.
        """
        for ns, device in ((self.switches[number], "u0"), (self.core, f"d{number}")):
            if percent or delay_ms:
                effect = ["netem", "loss", f"{percent}%", "delay", f"{delay_ms}ms"]
                _run(["tc", "-n", ns, "qdisc", "replace", "dev", device, "root", *effect])
            else:
                _run(["tc", "-n", ns, "qdisc", "del", "dev", device, "root"])

    def carrier(self, nic: str) -> bool:
        """Whether a NIC of the node is up and has carrier."""
        return "LOWER_UP" in ip("-o", "link", "show", nic, ns=self.node)

    def give_address(self, device: str) -> None:
        """Give ``device`` the node's addresses and default routes, IPv4 and IPv6."""
        ip_batch(_addresses(device), ns=self.node)

    def make_bond(
        self,
        mode: str = "active-backup",
        *,
        miimon_ms: int = 50,
        name: str = "bond0",
        members: tuple[str, ...] = NICS,
        addresses: bool = True,
        **options: object,
    ) -> Bond:
        """Make the reference bond that a person would make with ``ip``.

        ``options`` go to ``ip link add type bond`` as they are (``primary_reselect="failure"``);
        the ARP monitor needs ``miimon_ms=0``. The first member starts as the active one.
        """
        settings = {"mode": mode, **({"miimon": miimon_ms} if miimon_ms else {}), **options}
        words = " ".join(f"{key} {value}" for key, value in settings.items())
        lines = [f"link add {name} type bond {words}"]
        for member in members:
            lines += [f"link set {member} down", f"link set {member} master {name}"]
        lines += [f"link set {name} up", *(_addresses(name) if addresses else [])]
        ip_batch(lines, ns=self.node)
        wait_until(lambda: self.carrier(name), f"carrier on {name}")
        return Bond(name, self.node)

    def answers(self, address: str = GATEWAY_4, *, via: str | None = None) -> bool:
        """Whether ``address`` answers one ping within a second; ``via`` names the NIC to use."""
        where = ["ip", "netns", "exec", self.node] if self.node else []
        device = ["-I", via] if via else []
        ping = ["ping", "-n", "-q", "-c", "1", "-W", "1", *device, address]
        return subprocess.run([*where, *ping], capture_output=True, check=False).returncode == 0

    def probe(self, *, rate_hz: float = 200, family: int = 4) -> Probe:
        """Return a stream of UDP probes both ways between node and gateway; see Probe."""
        addresses = (NODE_4, GATEWAY_4) if family == 4 else (NODE_6, GATEWAY_6)
        return Probe((self.node, self.gateway), addresses, rate_hz)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.close()


def _bridge() -> list[str]:
    # Snooping would hold back neighbour solicitations; addresses of switches would be noise.
    return [
        "link add br0 type bridge forward_delay 0 mcast_snooping 0",
        "link set br0 addrgenmode none up",
    ]


def _port(device: str) -> list[str]:
    return [f"link set {device} addrgenmode none", f"link set {device} master br0 up"]


def _addresses(device: str, *, gateway: bool = False) -> list[str]:
    host_4, host_6 = (GATEWAY_4, GATEWAY_6) if gateway else (NODE_4, NODE_6)
    lines = [f"addr add {host_4}/24 dev {device}", f"addr add {host_6}/64 dev {device} nodad"]
    if not gateway:
        lines += [
            f"route add default via {GATEWAY_4} dev {device}",
            f"route add ::/0 via {GATEWAY_6} dev {device}",
        ]
    return lines


def _run(command: list[str], lines: str | None = None) -> str:
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        said = f"{done.stderr.strip()} {lines or ''}"
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {said}")
    return done.stdout
