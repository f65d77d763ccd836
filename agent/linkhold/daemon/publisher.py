"""What a decision becomes: state file first, then leg A, then outbox and leg B."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.daemon import host
from linkhold.daemon.log import log
from linkhold.daemon.metrics import Metrics
from linkhold.model import StoreError
from linkhold.store.outbox import entry_of
from linkhold.store.statefile import StateFile
from linkhold.wire import wrap_state
from linkhold.wire.state import StateEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from linkhold.config.metrics import MetricsSettings
    from linkhold.legs.fleet import FleetLeg
    from linkhold.legs.local import LocalLeg
    from linkhold.model import Event, Identity, Moment, NodeState
    from linkhold.model.numbers import JobNumbers
    from linkhold.store.keeper import Keeper


class Publisher:
    """Hands every state and event to those who want it, in the order of the design.

    ``tell`` gets each event's bytes for people who follow on the control socket; ``counters``
    collects the counters of all parts, ``heard`` when each source of power gave a sign of life:
    both are shown in the state and are no change of it. ``jobs`` are what training tells of itself,
    for the metrics alone.
    """

    def __init__(
        self,
        identity: Identity,
        state_file: Path,
        keeper: Keeper,
        tell: Callable[[bytes], None],
        counters: Callable[[], Mapping[str, int]],
        heard: Callable[[], Mapping[str, int]],
        jobs: Callable[[], tuple[JobNumbers, ...]],
    ) -> None:
        self._identity = identity
        self._encoder = StateEncoder(identity)
        self._file = StateFile(state_file)
        self._keeper = keeper
        self._tell = tell
        self._counters = counters
        self._heard = heard
        self._jobs = jobs
        self._clock = host.ClockCheck()
        self._clock_synced = self._clock.synced()
        self.local: LocalLeg | None = None
        self.fleet: FleetLeg | None = None
        self.file_failures = 0
        self.file_problem = ""
        self._metrics = Metrics()

    @property
    def counters(self) -> dict[str, int]:
        """What the legs and the state file count."""
        counters = {"state_file_failures": self.file_failures}
        if self.local is not None:
            counters |= self.local.counters
        if self.fleet is not None:
            counters |= self.fleet.counters()
        return counters

    def publish(
        self, state: NodeState, events: Sequence[Event], now: Moment, next_seq: int
    ) -> None:
        """Publish a changed state and the events that go with it.

        ``next_seq`` is the number of the next event, which a birth names.
        """
        document = self._write(state, now)
        cloud_event = wrap_state(self._identity, state.epoch, now, document)
        if self.local is not None:  # before anything else is made: it is what trainers wait for
            self.local.publish_state(cloud_event)
        entries = [entry_of(self._identity, event) for event in events]
        if self.local is not None:
            self.local.publish_events([(entry.type, entry.payload) for entry in entries])
        if entries:
            self._keeper.record(entries, document)
        if self.fleet is not None:
            self.fleet.publish_state(cloud_event, next_seq)
        for entry in entries:
            self._tell(entry.payload)

    def heartbeat(self, state: NodeState, now: Moment, metrics: MetricsSettings) -> None:
        """Renew the state file, leg A and the metrics; not the outbox's disk, not the fleet."""
        self._clock_synced = self._clock.synced()
        document = self._write(state, now)
        if self.local is not None:
            self.local.beat()
            self.local.publish_state(wrap_state(self._identity, state.epoch, now, document))
        self._metrics.show(document, metrics, self._jobs())

    def document(self, state: NodeState, now: Moment) -> bytes:
        """Return the state document as bytes of JSON."""
        unavailable = dict(state.agent.unavailable)
        if self.file_problem:
            unavailable["state_file"] = self.file_problem
        return self._encoder.encode(
            state,
            now,
            clock_synced=self._clock_synced,
            agent={
                "counters": dict(self._counters()),
                "unavailable": unavailable,
                "heard_mono_ns": dict(self._heard()),
            },
        )

    def _write(self, state: NodeState, now: Moment) -> bytes:
        document = self.document(state, now)
        problem = self._try(document)
        if problem == self.file_problem:
            return document
        self.file_problem = problem
        log.warning("state file: %s", problem or "written again")
        document = self.document(state, now)  # which tells of it
        if not problem:
            self._try(document)
        return document

    def _try(self, document: bytes) -> str:
        """Write the state file; return why it could not be, else nothing."""
        try:
            self._file.write(document)
        except StoreError as error:
            self.file_failures += 1
            return str(error)
        return ""
