"""What a connection is for, as far as ports, environment and threads tell. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.model.jobs import TrainingProcess
    from linkhold.model.keepalive import Connection

STORE = "TCPStore"
UNKNOWN = "unknown"
PORTS = {
    22: "ssh",
    53: "DNS",
    80: "HTTP or S3",
    88: "Kerberos",
    111: "NFS",
    389: "LDAP",
    443: "HTTPS or S3",
    445: "SMB",
    636: "LDAP",
    988: "Lustre",
    1883: "MQTT",
    2049: "NFS",
    2379: "etcd",
    2380: "etcd",
    3128: "proxy",
    3260: "iSCSI",
    3300: "Ceph",
    4420: "NVMe/TCP",
    5432: "PostgreSQL",
    6379: "Redis or Ray",
    6443: "Kubernetes",
    6789: "Ceph",
    6817: "Slurm",
    6818: "Slurm",
    8883: "MQTT",
    9000: "S3 (MinIO)",
    29400: "rendezvous",
    29500: STORE,
    50051: "gRPC",
}
EPHEMERAL = 32768
"""First port that Linux takes for clients (ip_local_port_range): one's own above it is no name."""
ENDPOINTS = ("--rdzv_endpoint", "--rdzv-endpoint")
STORE_PORTS = ("--master_port", "--master-port", "--main_process_port")
RENDEZVOUS = 29400
"""torchrun's own port where its endpoint names none."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the process of a connection.

    ``store_ports`` are those of its job's TCPStore or rendezvous, ``threads`` the names of its
    threads, ``job`` the name of its job.
    """

    store_ports: frozenset[int] = frozenset()
    threads: frozenset[str] = frozenset()
    job: str = ""


def kind(connection: Connection, facts: Facts) -> str:
    """Return in a word what a connection is for, "unknown" where nothing tells."""
    local, remote = connection.local_port, connection.remote_port
    if not facts.store_ports.isdisjoint((local, remote)):
        return STORE
    if remote in PORTS and (remote < EPHEMERAL or local not in PORTS):
        return PORTS[remote]
    if local < EPHEMERAL and local in PORTS:
        return PORTS[local]
    return _by_threads(facts.threads)


def store_ports(processes: Iterable[TrainingProcess]) -> frozenset[int]:
    """Return the ports on which the processes of one job meet: environment and arguments."""
    found = set()
    for process in processes:
        found.add(_port(process.env.get("MASTER_PORT", "")))
        for option, value in _options(process.words):
            if option in STORE_PORTS:
                found.add(_port(value))
            elif option in ENDPOINTS and value:
                _, colon, port = value.rpartition(":")
                found.add(_port(port) if colon and not value.endswith("]") else RENDEZVOUS)
    return frozenset(found - {0})


def stays_here(connection: Connection) -> bool:
    """Whether a connection never leaves its host: loopback, or an address to itself."""
    if connection.local == connection.remote:
        return True
    try:
        return ip_address(connection.remote).is_loopback
    except ValueError:
        return False


def _by_threads(threads: frozenset[str]) -> str:
    """Tell by threads: PyTorch's are pt_gloo_runloop, pt_nccl_watchdg, ..., NCCL's NCCL ..."""
    nccl = any(name.startswith(("NCCL ", "pt_nccl")) for name in threads)
    gloo = any(name.startswith(("pt_gloo", "gloo_")) for name in threads)
    if nccl or gloo:
        return " or ".join(name for name, there in (("NCCL", nccl), ("Gloo", gloo)) if there)
    if any(name.startswith("pt_tcpstore") for name in threads):
        return STORE
    if any(name.startswith(("grpc_", "event_engine")) for name in threads):
        return "gRPC"
    return UNKNOWN


def _options(words: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    """Yield options with their values, in both ways of writing them."""
    for word, following in zip(words, (*words[1:], ""), strict=False):
        name, equals, value = word.partition("=")
        yield name, value if equals else following


def _port(text: str) -> int:
    """Return a port, 0 for what is none."""
    try:
        number = int(text)
    except ValueError:
        return 0
    return number if 0 < number < 1 << 16 else 0
