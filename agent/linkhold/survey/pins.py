"""Settings that tie a training job to interfaces by name, and what their values select. Pure.

NCCL: "NCCL_SOCKET_IFNAME" in its user guide and parseStringList/matchIf in src/misc/utils.cc: a
list of prefixes, ``=`` before it makes them exact, ``^`` excludes; each may end in ``:port``. Gloo
(PyTorch): a list of exact names. TensorPipe: one exact name. UCX: names or patterns, ``^``
excludes, ``all``. Open MPI: names or subnets; an ``exclude`` variable excludes. libfabric: one.
"""

from __future__ import annotations

from enum import Enum
from fnmatch import fnmatchcase

NCCL_MAX = 16  # MAX_IFS: NCCL reads no more names


class Syntax(Enum):
    """How the value of a variable is read."""

    NCCL = "prefixes"
    EXACT = "exact names"
    PATTERNS = "patterns"
    EXCLUDE = "exact names to leave out"


VARIABLES = {
    "NCCL_SOCKET_IFNAME": Syntax.NCCL,
    "NCCL_OOB_NET_IFNAME": Syntax.NCCL,
    "HCCL_SOCKET_IFNAME": Syntax.NCCL,
    "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME": Syntax.NCCL,
    "GLOO_SOCKET_IFNAME": Syntax.EXACT,
    "TP_SOCKET_IFNAME": Syntax.EXACT,
    "HOROVOD_GLOO_IFACE": Syntax.EXACT,
    "FI_TCP_IFACE": Syntax.EXACT,
    "UCX_NET_DEVICES": Syntax.PATTERNS,
    "OMPI_MCA_btl_tcp_if_include": Syntax.EXACT,
    "OMPI_MCA_oob_tcp_if_include": Syntax.EXACT,
    "OMPI_MCA_btl_tcp_if_exclude": Syntax.EXCLUDE,
    "OMPI_MCA_oob_tcp_if_exclude": Syntax.EXCLUDE,
}


def pins(value: str, variable: str, member: str, bond: str = "bond0") -> bool:
    """Whether a job with this setting uses ``member`` now and would not use ``bond`` instead.

    So ``eth`` pins eth0, ``eth,bond`` and ``^docker`` do not, and ``^bond`` does: it leaves the
    bond out. A value that selects nothing, or anything, pins nothing.
    """
    syntax = VARIABLES.get(variable)
    if syntax is None:
        return False
    return selects(value, syntax, member) and not selects(value, syntax, bond)


def selects(value: str, syntax: Syntax, name: str) -> bool:
    """Whether a value lets the interface ``name`` be used."""
    if syntax is Syntax.NCCL:
        return _nccl(value, name)
    if syntax is Syntax.PATTERNS:
        return _patterns(value, name)
    words = _words(value)
    return name not in words if syntax is Syntax.EXCLUDE else not words or name in words


def _nccl(value: str, name: str) -> bool:
    exclude = value.startswith("^")
    rest = value[1:] if exclude else value
    exact = rest.startswith("=")
    words = [word.partition(":")[0] for word in rest[exact:].split(",")]
    listed = [word for word in words if word][:NCCL_MAX]
    if not listed:
        return True  # an empty list matches everything, also behind "^" (matchIfList)
    found = name in listed if exact else name.startswith(tuple(listed))
    return found != exclude


def _patterns(value: str, name: str) -> bool:
    exclude = value.startswith("^")
    words = _words(value.removeprefix("^"))
    if not words or "all" in words:
        return True
    return any(fnmatchcase(name, word) for word in words) != exclude


def _words(value: str) -> list[str]:
    return [word for word in (word.strip() for word in value.split(",")) if word]
