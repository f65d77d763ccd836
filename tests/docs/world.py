"""A node of a fleet as the pages speak of it: agent, two brokers with the recommended files, relay.

Everything is real: the configuration of node and brokers is what the pages and files in ``docs``
say, with the places of certificates exchanged. The only job is a process that looks like a rank.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme

from docs.pages import ROOT, blocks
from docs.place import Host
from support import netns, running
from support.beyond import Beyond
from support.broker import MOSQUITTO, wait_until
from support.netns import Namespace
from support.oncall import ALERTMANAGER, FILES
from support.places import GATEWAY, TIED, Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NODE, BROKERS = "gpu-r12-7", ("broker-a.example.org", "broker-b.example.org")
FAR, STORE, NFS = "10.0.1.1", 29500, 2049
READY_S = 20.0
NOTIFY = "/run/notify"
RELAY = f"""\
brokers:
- {{host: {BROKERS[0]}, tls: {{ca: /etc/linkhold/ca.pem, cert: /etc/linkhold/relay.pem,
   key: /etc/linkhold/relay.key}}}}
- {{host: {BROKERS[1]}, tls: {{ca: /etc/linkhold/ca.pem, cert: /etc/linkhold/relay.pem,
   key: /etc/linkhold/relay.key}}}}
alertmanagers: [{{url: http://127.0.0.1:9093}}]
places:
- {{nodes: [gpu-r12-*], site: lab, rack: r12}}
"""
LAUNCHER = """\
import os, subprocess, sys
subprocess.run([sys.executable, sys.argv[-1]], env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"})
"""
RANK = f"""\
import socket, time
gpu = open("/dev/nvidia0")
store = socket.create_connection(("{FAR}", {STORE}))
nfs = socket.create_connection(("{FAR}", {NFS}))
nfs.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
open("job-ready", "w").close()
time.sleep(600)
"""
"""What the agent and the commands see of a job: a torchrun, and a rank with a GPU that is open."""


def missing() -> str:
    """Return why there can be no such world here, empty when there can."""
    programs = [one for one in (MOSQUITTO, ALERTMANAGER) if not shutil.which(one)]
    lacking = f"not installed: {', '.join(programs)}; make setup" if programs else ""
    return netns.missing() or running.missing() or lacking


@dataclass(frozen=True)
class World:
    """The node, and the socket on which its agent tells systemd how it is."""

    host: Host
    told: socket.socket

    def status(self) -> str:
        """Return what `systemctl status` would show once both legs are up."""
        shown = [""]

        def settled() -> bool:
            with suppress(BlockingIOError):
                while True:
                    lines = self.told.recv(4096).decode().splitlines()
                    shown.extend(line for line in lines if line.startswith("STATUS="))
            return "leg A up, leg B up" in shown[-1]

        wait_until(settled, 30, "both legs are up")
        return shown[-1]


@contextmanager
def world() -> Iterator[World]:
    """Make the node, its network and what stands around it; all of it ends with the block."""
    with ExitStack() as stack:
        folder = stack.enter_context(Place())
        ns = stack.enter_context(Namespace())
        _wire(ns, stack)
        host = Host(ns, folder, NODE)
        stack.callback(host.close)
        _certify(folder, host)
        for number, broker in enumerate(BROKERS):
            stack.callback(_end, _broker(ns, folder, broker, f"127.0.0.{number + 1}"))
        stack.callback(_end, _alertmanager(ns, folder))
        host.write({"/etc/linkhold/linkhold.yaml": _configuration()}, 0o644)
        _train(host)
        told = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        told.setblocking(False)
        told.bind(str(host.path(NOTIFY)))
        _serve(host, folder / "agent.log")
        yield World(host, told)


def _serve(host: Host, log: Path) -> None:
    """Start the agent as systemd does; wait until the node's broker and the fleet's serve it."""
    host.start("linkhold agent", log, f"NOTIFY_SOCKET={NOTIFY}")
    state = host.path("/run/linkhold/state.json")

    def serves() -> bool:
        with suppress(OSError, KeyError, ValueError):
            legs = json.loads(state.read_bytes())["detail"]["agent"]
            return bool(legs["leg_a"] == "up" and legs["leg_b"].startswith("up"))
        return False

    wait_until(serves, READY_S, f"the agent serves; {log} says why not")


def _wire(ns: Namespace, stack: ExitStack) -> None:
    """Give the node a way out by eth0, and another host behind eth1."""
    ns.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    ns.veth("eth0", "p0")
    ns.ip("addr add 10.0.0.2/24 dev eth0")
    ns.ip(f"route add default via {GATEWAY}")
    stack.enter_context(Beyond(ns, "p0"))
    far = stack.enter_context(Namespace())
    ns.veth("eth1", "eth0", other=far)
    ns.ip("addr add 10.0.1.2/24 dev eth1")
    far.ip(f"addr add {FAR}/24 dev eth0")
    with far.enter():
        for port in (STORE, NFS):
            stack.enter_context(socket.create_server((FAR, port)))


def _certify(folder: Path, host: Host) -> None:
    """Hand out certificates, and the names of the brokers."""
    ca = trustme.CA()
    server = ca.issue_cert(*BROKERS)
    for name, made in (("broker", server), *((n, _issued(ca, n)) for n in (NODE, "relay"))):
        made.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        made.private_key_pem.write_to_path(folder / f"{name}.key")
    ca.cert_pem.write_to_path(folder / "ca.pem")
    place = "/etc/linkhold"
    files: dict[str, str | bytes] = {
        **{
            f"{place}/{name}": (folder / "ca.pem").read_bytes() for name in ("ca.pem", "nut-ca.pem")
        },
        **{
            f"{place}/relay{end}": (folder / f"relay{end}").read_bytes() for end in (".pem", ".key")
        },
        **{
            f"{place}/node{end}": (folder / f"{NODE}{end}").read_bytes() for end in (".pem", ".key")
        },
        f"{place}/upsd": "secret\n",
        f"{place}/relay.yaml": RELAY,
        "/etc/resolv.conf": f"nameserver {GATEWAY}\n",
        "/etc/hosts": f"127.0.0.1 localhost {BROKERS[0]}\n127.0.0.2 {BROKERS[1]}\n",
    }
    host.write(files)
    host.write({name: files[name] for name in ("/etc/resolv.conf", "/etc/hosts")}, 0o644)


def _issued(ca: trustme.CA, name: str) -> trustme.LeafCert:
    return ca.issue_cert(name, common_name=name)


def _broker(ns: Namespace, folder: Path, name: str, address: str) -> subprocess.Popen[bytes]:
    """Start mosquitto with the recommended configuration, in a place of its own."""
    own = folder / name
    own.mkdir()
    own.chmod(0o777)
    text = (ROOT / "docs/brokers/linkhold.conf").read_text()
    places = {
        "/etc/mosquitto/linkhold.acl": str(ROOT / "docs/brokers/linkhold.acl"),
        "/etc/mosquitto/certs": str(folder),
        "persistence true": f"persistence true\npersistence_location {own}/",
        "listener 8883": f"user root\nlistener 8883 {address}",
    }
    for stated, there in places.items():
        assert stated in text, f"docs/brokers/linkhold.conf says nothing of {stated}"
        text = text.replace(stated, there)
    (own / "mosquitto.conf").write_text(text)
    return _served(ns, own / "log", (address, 8883), MOSQUITTO, "-c", str(own / "mosquitto.conf"))


def _alertmanager(ns: Namespace, folder: Path) -> subprocess.Popen[bytes]:
    arguments = (
        f"--config.file={FILES / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        "--web.listen-address=127.0.0.1:9093",
        "--cluster.listen-address=",
        "--data.maintenance-interval=10s",
    )
    log = folder / "alertmanager.log"
    return _served(ns, log, ("127.0.0.1", 9093), ALERTMANAGER, *arguments)


def _served(
    ns: Namespace, log: Path, where: tuple[str, int], *command: str
) -> subprocess.Popen[bytes]:
    with ns.enter(), log.open("ab") as file:
        process = subprocess.Popen([*TIED, *command], stdout=file, stderr=file)

        def listens() -> bool:
            assert process.poll() is None, log.read_text()
            with suppress(OSError):
                socket.create_connection(where, 1).close()
                return True
            return False

        wait_until(listens, READY_S, f"{command[0]} listens")
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _configuration() -> str:
    """Return the node's configuration: what the page about brokers says, and little more."""
    page = blocks(ROOT / "docs/brokers.md")
    fleet = next(block.text for block in page if block.text.startswith("mqtt:"))
    return f"site: lab\n{fleet}\n  connect_jitter_s: 0\n"


def _train(host: Host) -> None:
    """Start what looks like a job of two nodes, with connections to the other one."""
    files = {"torchrun": LAUNCHER, "train.py": RANK}
    host.write({f"{host.home}/{name}": text for name, text in files.items()})
    host.write({"/dev/nvidia0": ""})
    rendezvous = f"--rdzv_backend=c10d --rdzv_endpoint={FAR}:{STORE}"
    line = f"python torchrun --nnodes=2 --nproc_per_node=1 {rendezvous} train.py"
    host.start(line, host.home.parent / "job.log", f"MASTER_ADDR={FAR}", f"MASTER_PORT={STORE}")
    ready = host.path(f"{host.home}/job-ready")
    wait_until(ready.exists, READY_S, "the job runs")
