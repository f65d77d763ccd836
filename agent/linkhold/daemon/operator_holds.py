"""``linkhold hold`` and ``resume``: who may, which job is meant, and what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import pwd
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from linkhold.daemon import host
from linkhold.deadlines import within
from linkhold.decide import operator_hold
from linkhold.decide.operator_hold import DEFAULT_S, Order
from linkhold.decide.readings import OperatorHoldsReading
from linkhold.model import LinkholdError
from linkhold.survey import training
from linkhold.survey.files import Reader
from linkhold.survey.job_members import members
from linkhold.threads import in_thread
from linkhold.wire import dumps
from linkhold.wire.holds import holds_document

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from linkhold.decide.readings import Reading
    from linkhold.door import Peer
    from linkhold.model.holds import Key, OperatorHold

T = TypeVar("T")

GROUP = "linkhold-operators"
"""Members of this group may hold and resume; so may root and the agent's own user."""
LOOK_S = 10.0
NAME_S = 3.0
"""For a name of a user or group: a directory service may be behind a network that is down."""
SHOWN_JOBS = 10
PROC = Path("/proc")
BEYOND_S = 1e9
"""Longer than any hold; a whole number may be too large to be seconds at all."""
NO_LOGIN = (1 << 32) - 1
"""(uid_t) -1: the process comes from no login (linux/audit.h, AUDIT_UID_UNSET)."""


class OperatorHolds:
    """Takes the requests of the control socket. ``holds`` are those in force now."""

    def __init__(
        self,
        report: Callable[[Reading], None],
        holds: Callable[[], tuple[OperatorHold, ...]],
        group: str = GROUP,
    ) -> None:
        self._report = report
        self._holds = holds
        self._group = group

    def handlers(self) -> dict[str, Callable[[Mapping[str, Any], Peer], Awaitable[bytes]]]:
        """Return the requests by name."""
        return {"hold": self._hold, "resume": self._resume}

    async def _hold(self, request: Mapping[str, Any], peer: Peer) -> bytes:
        by = await self._who(peer)
        orders = await _orders(request)
        holds, news = self._holds(), []
        for order in orders:
            holds, one = operator_hold.place(holds, order, by, peer.uid, host.now())
            news += one
        self._report(OperatorHoldsReading(holds, tuple(news)))
        made = [hold for hold in holds if hold.job in {order.job for order in orders}]
        return b'"holds":' + dumps(holds_document(made))

    async def _resume(self, request: Mapping[str, Any], peer: Peer) -> bytes:
        by = await self._who(peer)
        before = self._holds()
        jobs = tuple(hold.job for hold in before)
        wanted = _text(request, "job")
        if wanted:
            jobs = tuple(job for job in jobs if job and wanted in {job, *job.split("@", 1)})
        ended = [hold for hold in before if hold.job in jobs]
        if not ended:
            others = ", ".join(hold.subject for hold in before)
            what = f"nothing of job {wanted!r} is held" if wanted else "nothing is held here"
            raise LinkholdError(f"{what}; held are: {others}" if others else what)
        left, news = operator_hold.lift(before, jobs, by, host.now())
        self._report(OperatorHoldsReading(left, tuple(news)))
        return b'"ended":' + dumps(holds_document(ended))

    async def _who(self, peer: Peer) -> str:
        """Return the name of who asks; raises :class:`LinkholdError` when that is not allowed."""
        if not peer.privileged:
            gid = await _named(lambda: grp.getgrnam(self._group).gr_gid)
            if gid is None:
                raise LinkholdError(
                    f"only root may: this node has no group {self._group}; as root: "
                    f"groupadd --system {self._group}, then add yourself, or use sudo"
                )
            if gid not in peer.groups:
                raise LinkholdError(
                    f"only root and members of the group {self._group} may; as root: "
                    f"usermod -aG {self._group} NAME, then log in anew, or use sudo"
                )
        name = await _named(lambda: asker(peer))
        return f"uid {peer.uid}" if name is None else name


def asker(peer: Peer, proc: Path = PROC) -> str:
    """Return the name of who asks and, where he became another user by sudo, of who logged in.

    The kernel keeps the user of a login over sudo and su (``loginuid``, proc(5)). Blocking.
    """
    try:
        login = int((proc / str(peer.pid) / "loginuid").read_text())
    except (OSError, ValueError):
        login = NO_LOGIN
    name = _name_of(peer.uid)
    return name if login in {NO_LOGIN, peer.uid} else f"{name} (login {_name_of(login)})"


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


async def _named(look_up: Callable[[], T]) -> T | None:
    """Return what a name service says, None when it knows nothing or says nothing in time."""
    with contextlib.suppress(KeyError, asyncio.TimeoutError):
        return await within(in_thread(look_up), NAME_S)
    return None


async def _orders(request: Mapping[str, Any]) -> list[Order]:
    """Return what is to be held: of the node, or of each job that is meant."""
    order = Order(
        uploads=request.get("uploads") is True,
        training=request.get("training") is True,
        why=_text(request, "why"),
        for_s=_seconds(request.get("for_s", DEFAULT_S)),
    )
    operator_hold.check(order)
    wanted = _text(request, "job")
    if not wanted:
        return [order]
    try:
        found = await within(in_thread(lambda: _jobs(wanted)), LOOK_S)
    except asyncio.TimeoutError:
        raise LinkholdError("the processes of this node cannot be listed in time") from None
    return [
        Order(order.uploads, order.training, order.why, order.for_s, job, processes)
        for job, processes in found.items()
    ]


def _jobs(wanted: str) -> dict[str, tuple[Key, ...]]:
    """Return the processes of the jobs that somebody means. Blocking."""
    reader = Reader(Path("/"))
    found = training.find(reader)
    jobs = found.named(wanted)
    if not jobs:
        known = ", ".join(found.jobs[:SHOWN_JOBS])
        hint = f"running are: {known}" if known else "no training runs on this node"
        raise LinkholdError(f"no job {wanted!r} here; {hint}")
    return {job: members(reader, found, job) for job in jobs}


def _text(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name, "")
    if not isinstance(value, str):
        raise LinkholdError(f"{name}: {value!r} is no text")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LinkholdError(f"for: {value!r} is no number of seconds")
    return float(min(value, BEYOND_S))
