"""A diagnosis for the fleet: asked for on ``cmd/diagnose``, or made here and to be published.

It is made by a process of its own with a deadline, waited for in a thread: whatever hangs in it,
the loop goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold import children
from linkhold.daemon.log import log
from linkhold.deadlines import within
from linkhold.decide import far_diagnosis as desk
from linkhold.decide.far_diagnosis import Ruling
from linkhold.legs.fleet_diagnose import NOT_HEARD, SINCE_S, Ignored, Report, read_request
from linkhold.model import LinkholdError, Unavailable, WireError
from linkhold.threads import in_thread
from linkhold.wire import diagnosis_topic, dumps, load_json, rfc3339

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from linkhold.door import Peer
    from linkhold.legs.fleet import FleetLeg
    from linkhold.legs.fleet_diagnose import DiagnoseRequest
    from linkhold.mqtt import Received

DEADLINE_S = 30.0
"""A diagnosis ends by itself within ten seconds; one that does not is killed."""
MOST_BYTES = 1 << 20
"""Of what the process may answer; what is published is cut to less."""
PUBLISH_S = 15.0
MODULE = "linkhold.cli.diagnose_child"
STATES = frozenset({"healthy", "degraded", "down", "unknown"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where this agent is: its topics, its configuration file, its run folder."""

    prefix: str
    config_file: Path | None
    run_dir: Path


class FarDiagnosis:
    """Takes requests of the fleet and reports of this node's root, and publishes the answers.

    ``leg`` is the connection to the fleet as it is now, None without one.
    """

    def __init__(
        self,
        place: Place,
        leg: Callable[[], FleetLeg | None],
        *,
        command: Sequence[str] | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._place = place
        self._leg = leg
        self._command = command or children.ourselves(MODULE)
        self._deadline_s = deadline_s
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._desk = desk.Desk()
        self._told: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._counts = Counter[str]()

    @property
    def counters(self) -> dict[str, int]:
        """How many requests were taken, refused and ignored, and what became of reports."""
        names = (*(ruling.value for ruling in Ruling), "diagnoses_ignored", "diagnoses_failed")
        return {name: self._counts[name] for name in names}

    def handlers(self) -> dict[str, Callable[[Mapping[str, Any], Peer], Awaitable[bytes]]]:
        """Return the requests of the control socket."""
        return {"publish_diagnosis": self._publish}

    def heard(self, message: Received) -> None:
        """Take a message of ``cmd/diagnose``, in the leg's thread; never waits."""
        try:
            request = read_request(message)
        except Ignored as error:
            self._ignore(error)
            return
        with self._lock:
            self._desk, ruling, why = desk.rule(self._desk, request.id, time.monotonic_ns())
        self._counts[ruling.value] += 1
        if ruling is Ruling.TAKEN:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._begin, request)
        elif ruling is Ruling.REFUSED:
            self._send(request.id, {"outcome": "refused", "why": why})
        if ruling is not Ruling.TAKEN:
            self._tell_once(ruling.value, f"a request for a diagnosis was refused: {why}")

    def _ignore(self, error: Ignored) -> None:
        self._counts["diagnoses_ignored"] += 1
        self._tell_once(error.kind, f"a message on cmd/diagnose was ignored: {error}")

    def _tell_once(self, kind: str, text: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            log.warning("%s (more of that kind are counted, not told)", text)

    def _begin(self, request: DiagnoseRequest) -> None:
        task = self._loop.create_task(self._diagnose(request))
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)

    async def _diagnose(self, request: DiagnoseRequest) -> None:
        log.info("diagnosis %s, as the fleet asked", request.id)
        try:
            found = await in_thread(lambda: self._ask(request.since))
            answer = {**found, "outcome": "done"}
        except Unavailable as error:
            self._counts["diagnoses_failed"] += 1
            log.warning("diagnosis %s: %s", request.id, error)
            answer = {"outcome": "failed", "why": str(error)}
        finally:
            with self._lock:
                self._desk = desk.ended(self._desk)
        self._send(request.id, {**answer, "since": request.since})

    def _ask(self, since: str) -> dict[str, Any]:
        config = self._place.config_file
        question = {
            "since_s": SINCE_S[since],
            "config": None if config is None else str(config),
            "run_dir": str(self._place.run_dir),
        }
        found = children.ask(
            self._command, question, timeout_s=self._deadline_s, most_bytes=MOST_BYTES
        )
        if not isinstance(found, dict):
            raise Unavailable("the helper process answered what is no report")
        return found

    def _send(self, request: str, answer: Mapping[str, Any]) -> None:
        leg = self._leg()
        if leg is not None:
            leg.publish_report(Report(request, _headed(request, answer), lambda _: None))

    async def _publish(self, request: Mapping[str, Any], peer: Peer) -> bytes:
        """Publish the report in the request's body and answer with its topic."""
        if not peer.privileged:
            raise LinkholdError("only root and the agent's own user may publish; try sudo")
        leg = self._leg()
        if leg is None:
            raise LinkholdError("this agent has no fleet (mqtt.fleet in its configuration)")
        identity = f"cli-{secrets.token_hex(6)}"
        answer = {**_report_in(request.get("body")), "outcome": "done"}
        done: asyncio.Future[str] = self._loop.create_future()

        def told(reason: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_settle, done, reason)

        report = Report(identity, _headed(identity, answer), told)
        if not leg.publish_report(report):
            raise LinkholdError("too many reports wait for the fleet's broker; try again")
        topic = diagnosis_topic(self._place.prefix, identity)
        _judge(await self._outcome(leg, report, done), topic)
        return b'"topic":' + dumps(topic)

    async def _outcome(self, leg: FleetLeg, report: Report, done: asyncio.Future[str]) -> str:
        try:
            return await within(done, PUBLISH_S)
        except asyncio.TimeoutError:
            leg.withdraw(report)
            return f"no broker of the fleet took it within {PUBLISH_S:g} s; see: linkhold status"


def _judge(reason: str, topic: str) -> None:
    if reason == NOT_HEARD:
        raise LinkholdError(f"the broker took it, but nobody is subscribed to {topic}")
    if reason:
        raise LinkholdError(f"the fleet's broker: {reason}")


def _settle(done: asyncio.Future[str], reason: str) -> None:
    if not done.done():
        done.set_result(reason)


def _headed(request: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    head = {"schema": 1, "id": request, "at": rfc3339(time.time())}
    return {**head, **{name: value for name, value in answer.items() if name not in head}}


def _report_in(body: Any) -> dict[str, Any]:
    """Return the report that somebody sent; raises :class:`LinkholdError` for anything else."""
    try:
        found = load_json(body) if isinstance(body, bytes) else None
    except WireError as error:
        raise LinkholdError(f"no report: {error}") from None
    if not isinstance(found, dict) or found.get("schema") != 1 or found.get("state") not in STATES:
        raise LinkholdError("no report of linkhold diagnose")
    return found
