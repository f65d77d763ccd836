"""What of a job's settings is not in its processes: sysctls, open devices, NCCL's file, bonds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.survival import BondFacts, JobFacts
from linkhold.decide.survival.kernel import SYSCTLS
from linkhold.inside import sysctls
from linkhold.model import HostError, Unavailable
from linkhold.model.keepalive import Verdict
from linkhold.survey import snapshot
from linkhold.survey.audit import audit
from linkhold.survey.files import pairs
from linkhold.survey.inside import Visit, visit
from linkhold.survey.namespaces import find, inode_of
from linkhold.survey.training import open_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.jobs import Training, TrainingProcess
    from linkhold.survey.files import Reader

NCCL_CONF = "/etc/nccl.conf"
OWN_FOLDER = "/proc/sys/net/ipv4"


def look(reader: Reader, training: Training, job: str) -> JobFacts:
    """Return everything that is known of a job. Blocking: for commands and threads."""
    processes = training.of(job)
    ranks = [one for one in processes if not (one.is_launcher or one.is_worker)] or processes
    values, namespace, error = _sysctls(reader, ranks[0])
    connections, kept_alive = _keepalives(reader, training, processes)
    return JobFacts(
        job,
        processes,
        values,
        namespace,
        error,
        frozenset(path for one in ranks for path in open_files(reader, one.pid)),
        _nccl(reader, ranks[0]),
        bonds(),
        connections,
        kept_alive,
    )


def _keepalives(
    reader: Reader, training: Training, processes: tuple[TrainingProcess, ...]
) -> tuple[int, int | None]:
    """Return how many connections leave this host, and how many of them have keepalive.

    While data is in flight a connection does not show whether it has: then the second is None.
    """
    try:
        seen = audit(reader, training, [one.pid for one in processes], None)
    except Unavailable:
        return 0, None
    away = [one.verdict for one in seen.found if not one.loopback]
    kept = sum(verdict in {Verdict.PROTECTED, Verdict.STALE} for verdict in away)
    hidden = bool(seen.unseen) or Verdict.BUSY in away
    return len(away), None if hidden and not kept else kept


def bonds() -> tuple[BondFacts, ...]:
    """Return the bonds of our network namespace; none where the kernel does not answer."""
    try:
        found = snapshot.take()
    except HostError:
        return ()
    return tuple(
        _bond(link.name, link.bond) for link in found.links if link.kind == "bond" and link.bond
    )


def _bond(name: str, options: Mapping[str, object]) -> BondFacts:
    def number(key: str, default: int = 0) -> int:
        value = options.get(key, default)
        return value if isinstance(value, int) else default

    return BondFacts(
        name,
        number("miimon"),
        number("downdelay"),
        number("arp_interval"),
        number("missed_max", 2),
    )


def _sysctls(reader: Reader, process: TrainingProcess) -> tuple[dict[str, int], str, str]:
    """Return the sysctls of a process's network namespace, its name, and why they are unknown."""
    errors: dict[str, str] = {}
    own = inode_of(reader, "self")
    names = {one.inode: one for one in find(reader).found}
    place = names.get(process.namespace or own)
    name = place.name if place is not None else "unknown"
    if process.namespace in {0, own}:
        folder = str(reader.path(OWN_FOLDER))
        values = sysctls.read(SYSCTLS, errors, folder)
        return values, name, "; ".join(errors.values())
    path = place.path if place is not None else f"/proc/{process.pid}/ns/net"
    try:
        visited = visit([Visit(path, process.namespace, read=SYSCTLS)])[0]
    except Unavailable as error:
        return {}, name, str(error)
    return dict(visited.values), name, visited.error or "; ".join(visited.errors.values())


def _nccl(reader: Reader, process: TrainingProcess) -> dict[str, tuple[str, str]]:
    """Return the variables of NCCL's file, as the process sees it: it may be in a container.

    The user's file goes before the system's (NCCL's manual, "Environment Variables").
    """
    found: dict[str, tuple[str, str]] = {}
    for path in (NCCL_CONF, process.env.get("NCCL_CONF_FILE", "")):
        text = reader.chosen(f"/proc/{process.pid}/root/{path.lstrip('/')}") if path else ""
        found |= {k: (value, path) for k, value in pairs(text or "") if k.startswith("NCCL_")}
    return found
