"""What happens to the node that is worn out: one thing at a time, each undone by its own end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from support.broker import wait_until
from support.metadata_server import Told
from support.running import LINKHOLD, agent_of
from support.trainer import Trainer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from soak.node import Node

PREFIX = "linkhold/v1/lab/n1"
PATIENCE_S = 30.0
"""Other work on the machine may be heavy; what takes longer than this hangs."""
NOTICE = '{"action": "terminate", "time": "2026-12-01T08:22:00Z"}'
KMSG = Path("/dev/kmsg")
USER_DEBUG = 1 << 3 | 7


def pull_cable(node: Node, dice: random.Random) -> None:
    """The way out loses its cable for a while, or only for a moment."""
    node.ns.flip(node.peers["p0"], up=False)
    time.sleep(dice.choice((0.01, 0.3, 1.0)))
    node.ns.flip(node.peers["p0"], up=True)


def storm(node: Node, dice: random.Random) -> None:
    """A link flips as fast as the kernel can."""
    for number in range(dice.choice((20, 200))):
        node.ns.flip(node.peers["p1"], up=bool(number % 2))


def containers(node: Node, dice: random.Random) -> None:
    """Links of containers come and go."""
    count = dice.choice((5, 40))
    node.ns.batch(
        "".join(
            f"link add v{n} type veth peer name w{n}\nlink set v{n} up\nlink del v{n}\n"
            for n in range(count)
        )
    )


def deaf_gateway(node: Node, _dice: random.Random) -> None:
    """The gateway behind a live link is silent until that is noticed."""
    node.beyond.speaks.clear()
    time.sleep(4)
    node.beyond.speaks.update({"arp", "icmp", "dns"})


def trainers(node: Node, dice: random.Random) -> None:
    """Trainers connect, hear the state and leave; some without a word."""
    with suppress(OSError, AssertionError):  # the broker may be on its way back
        for _ in range(dice.randrange(1, 6)):
            trainer = Trainer(node.agent.trainer_socket, reconnect=False)
            sock = trainer.client.socket()
            if dice.random() < 0.5 and isinstance(sock, socket.socket):
                sock.shutdown(socket.SHUT_RDWR)
            trainer.close()


def kill_broker(node: Node, _dice: random.Random) -> None:
    """The node's broker dies and is started again."""
    for pid in node.agent.brokers():
        os.kill(pid, signal.SIGKILL)
    node.agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up", PATIENCE_S)


def kill_fleet(node: Node, dice: random.Random) -> None:
    """The fleet's broker dies, or hangs, and comes back."""
    if dice.random() < 0.5:
        node.fleet.kill()
        time.sleep(dice.choice((0.1, 1.5)))
        node.fleet.start()
    else:
        node.fleet.signal(signal.SIGSTOP)
        time.sleep(1.5)
        node.fleet.signal(signal.SIGCONT)


def _online(node: Node) -> None:
    node.agent.wait_for(lambda s: agent_of(s)["leg_b"].startswith("up"), PATIENCE_S)
    wait_until(node.operator.client.is_connected, PATIENCE_S, "the operator is back")


def _command(node: Node, name: str, **body: object) -> None:
    payload = json.dumps(body).encode()
    node.operator.publish(f"{PREFIX}/cmd/{name}", payload, expiry_s=60)


def diagnose(node: Node, _dice: random.Random) -> None:
    """The fleet asks for a diagnosis, and for one more than may run."""
    _online(node)
    _command(node, "diagnose", id=f"soak-{node.count}")
    _command(node, "diagnose", id=f"soak-{node.count}-more")


def replay(node: Node, _dice: random.Random) -> None:
    """The fleet asks for events once more, and sends garbage."""
    _online(node)
    _command(node, "replay", request=f"r{node.count}", since="2026-01-01T00:00:00Z", limit=50)
    for payload in (b"", b"\xff{", os.urandom(2000)):
        node.operator.publish(f"{PREFIX}/cmd/replay", payload, expiry_s=60)


def power(node: Node, dice: random.Random) -> None:
    """The mains go, the battery runs low, the mains are back; a sensor says so too."""
    for status in ("OB DISCHRG", "OB DISCHRG LB", "OL"):
        node.upsd.status = status
        if dice.random() < 0.5 and node.operator.client.is_connected():
            node.operator.publish("site/mains/state", b"1" if status == "OL" else b"0")
        time.sleep(0.7)


def notice(node: Node, _dice: random.Random) -> None:
    """The cloud will take the machine, and changes its mind."""
    node.told["instance-action"] = Told(body=NOTICE)
    with suppress(AssertionError):  # a machine that is away at that moment hears nothing
        node.agent.wait_for(lambda s: s["notices"], 10)
    node.told.clear()


def reload(node: Node, _dice: random.Random) -> None:
    """The configuration changes; now and then it is wrong."""
    node.idle_s = 60 + node.count % 500
    text = node.config()
    node.agent.config_file.write_text("mode: no\n" if node.count % 5 == 0 else text)
    node.agent.send(signal.SIGHUP)
    time.sleep(0.5)
    node.agent.config_file.write_text(text)


def kernel_log(node: Node, _dice: random.Random) -> None:
    """The kernel's log tells of a fault that ends."""
    if not os.access(KMSG, os.W_OK):
        return
    name = f"soak{node.count % 7}"
    lines = ["usb 2-1: new high-speed USB device"] * 6
    lines.insert(3, f"NETDEV WATCHDOG: {name} (igb): transmit queue 5 timed out")
    lines.append(f"igb 0000:05:00.1 {name}: igb: {name} NIC Link is Up 1000 Mbps")
    fd = os.open(KMSG, os.O_WRONLY)
    try:
        for line in lines:
            os.write(fd, f"<{USER_DEBUG}>{line}\n".encode())
    finally:
        os.close(fd)


def command_line(node: Node, dice: random.Random) -> None:
    """An operator looks, holds and resumes."""
    what = dice.choice(("status", "events", "hold"))
    if what == "hold":
        node.agent.cli("hold", "--training", "--for", "20s", "--why", "soak", timeout_s=60)
        node.agent.cli("resume", timeout_s=60)
    else:
        node.agent.cli(what, "--json", timeout_s=60)


def control_socket(node: Node, dice: random.Random) -> None:
    """Somebody talks nonsense to the control socket, or follows and goes."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(str(node.agent.run_dir / "control.sock"))
        says = (b'{"cmd": "follow"}\n', b"\0" * 2000 + b"\n", b'{"cmd": "state"}\n', b"{")
        sock.sendall(dice.choice(says))
        sock.recv(4096)


def scrape(node: Node, _dice: random.Random) -> None:
    """Prometheus comes by."""
    with suppress(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{node.scrape}/metrics", timeout=5).read()


def drift(node: Node, _dice: random.Random) -> None:
    """Somebody changes a sysctl, and the address of the second link."""
    node.ns.run("sysctl", "-qw", "net.ipv4.tcp_keepalive_time=7200")
    node.ns.ip("addr add 10.9.0.2/24 dev eth1")
    time.sleep(0.2)
    node.ns.ip("addr del 10.9.0.2/24 dev eth1")


def follower(node: Node, _dice: random.Random) -> None:
    """A person follows the events and closes the terminal."""
    command = [str(LINKHOLD), "events", "--follow", "--json"]
    with subprocess.Popen(
        [*command, "--run-dir", str(node.agent.run_dir)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        time.sleep(1)
        process.kill()


TROUBLES: dict[str, tuple[int, Callable[[Node, random.Random], None]]] = {
    "cable": (20, pull_cable),
    "storm": (6, storm),
    "containers": (6, containers),
    "deaf gateway": (2, deaf_gateway),
    "trainers": (12, trainers),
    "broker killed": (2, kill_broker),
    "fleet's broker": (4, kill_fleet),
    "diagnosis": (1, diagnose),
    "replay": (4, replay),
    "power": (6, power),
    "notice": (3, notice),
    "reload": (6, reload),
    "kernel log": (6, kernel_log),
    "command line": (4, command_line),
    "control socket": (6, control_socket),
    "scrape": (6, scrape),
    "drift": (4, drift),
    "follower": (2, follower),
}
"""How often each comes among the others, and what it does."""
