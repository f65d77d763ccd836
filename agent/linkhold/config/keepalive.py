"""The keys of ``keepalive:``: which profile, where it counts and which sockets are covered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from linkhold.config.option import option


class Profile(str, Enum):
    """Where the values of keepalive come from."""

    AUTO = "auto"
    DEFAULT = "default"
    AWS = "aws"
    AZURE = "azure"
    GCP = "gcp"
    ALIBABA = "alibaba"
    CUSTOM = "custom"
    UNMANAGED = "unmanaged"


class Namespaces(str, Enum):
    """Which network namespaces get the values; a sysctl reaches its own and no other."""

    HOST = "host"
    TRAINING = "training"
    ALL = "all"


class Cover(str, Enum):
    """Whose sockets the agent covers from outside, without a client in the process."""

    NOBODY = "nobody"
    TRAINING = "training"


@dataclass(frozen=True, slots=True)
class CoverSettings:
    """Sockets of processes without a client: SO_KEEPALIVE is set from outside."""

    processes: Cover = option(
        Cover.NOBODY, "nobody, or the training processes of this node (needs CAP_SYS_PTRACE)"
    )
    exclude_ports: tuple[str, ...] = option(
        (), "sockets with such a local or remote port are left alone", port=True, most=64
    )
    exclude_peers: tuple[str, ...] = option(
        (), "sockets to such an address are left alone", ip=True, most=64
    )


@dataclass(frozen=True, slots=True)
class BusySettings:
    """Sockets with data in flight: keepalive is silent then. 0 leaves a value as it is."""

    tcp_retries2: int = option(
        0, "retransmissions before a connection is given up; the kernel's 15", least=0, most=255
    )
    tcp_rto_max_ms: int = option(
        0,
        "the longest pause between them, on kernels from 6.15; theirs 120000",
        least=0,
        most=120_000,
        too_small="a negative time means nothing",
    )
    tcp_syn_retries: int = option(0, "tries to connect; the kernel's 6", least=0, most=127)


@dataclass(frozen=True, slots=True)
class KeepaliveSettings:
    """What idle TCP connections are to survive, and how."""

    profile: Profile = option(
        Profile.AUTO,
        "auto: by the cloud that this is; default: bare metal; custom: time_s, interval_s and "
        "probes below; unmanaged: hands off",
    )
    survive: float = option(
        1200.0,
        "the outage that idle connections shall survive",
        duration=True,
        least=10,
        most=86400,
    )
    middlebox_limit: float = option(
        0.0,
        "the shortest time after which something on the way (a firewall, a load balancer) "
        "forgets an idle connection, if you know it; 0: only what the profile knows",
        duration=True,
        least=0,
        most=864_000,
    )
    time_s: int = option(600, "custom: idle time before the first probe", least=1, most=32767)
    interval_s: int = option(60, "custom: time between probes", least=1, most=32767)
    probes: int = option(20, "custom: unanswered probes that end a connection", least=1, most=127)
    check_every: float = option(
        10.0, "how often the values are compared", duration=True, least=1, most=3600
    )
    namespaces: Namespaces = option(
        Namespaces.HOST,
        "host; training: also the network namespaces of training processes; all (both need "
        "CAP_SYS_ADMIN)",
    )
    busy: BusySettings = option(BusySettings, "sockets with data in flight")
    cover: CoverSettings = option(CoverSettings, "sockets of processes without linkhold's client")
