"""A Hold without agent, thread, socket or waiting: for tests of training code."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.client.hold import Hold
from linkhold.client.pause import Clock
from linkhold.client.settings import Settings, given_timers, several
from linkhold.client.summary import Tally
from linkhold.client.upload import Uploader
from linkhold.client.upload_handle import Upload, push_once
from linkhold.client.voice import Memo
from linkhold.model import (
    Advice,
    CheckpointRequest,
    LinkholdError,
    Network,
    PowerState,
    StopRequest,
    Training,
    Uploads,
)
from linkhold.model.promises import STALE_S
from linkhold.wire import StateView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from linkhold.client.data.gate import Gate

START_NS = 1_000_000_000_000
SILENT_NS = int((STALE_S + 1) * 1e9)
UNCHANGED: Any = object()


class FakeHold(Hold):
    """A Hold whose state a test sets and whose clock is simulated. Made by :meth:`Hold.fake`.

    Takes what :meth:`Hold.connect` takes about the job, what :meth:`set` takes, and ``sleep``,
    called with each slice of a hold in seconds: there a test lets the trouble end. Time passes
    only in :meth:`advance` and in holds. Uploads run at once, one attempt each, or wait for the
    gate. Reads of :meth:`data` are tried again in real time, whatever the state says. ``log``
    holds every line that a person would have read.

    >>> from linkhold.client import Hold
    >>> hold = Hold.fake(network="down", training="hold", cause="eth0 lost carrier")
    >>> hold.on_wait = lambda: hold.set(network="ok", training="go")
    >>> hold.step(7)
    >>> hold.log[-1]
    'held 0.2 s: network down (eth0 lost carrier)'
    >>> hold.set(checkpoint="on battery")
    >>> hold.step(8)
    >>> hold.checkpoint_due(8)
    True
    >>> with hold.saving():
    ...     hold.advance(30)
    >>> hold.checkpoint_due(8), hold.save_s
    (False, 30.0)
    >>> hold.set(stop="spot instance ends", stop_in_s=120)
    >>> hold.step(9)
    >>> hold.stop_reason, hold.seconds_left
    ('spot instance ends', 120.0)
    """

    def __init__(
        self,
        *,
        hold_on: Iterable[str] = (),
        checkpoint_every_steps: int | None = None,
        checkpoint_every_s: float | None = None,
        checkpoint_to: str = "local",
        max_hold_s: float = 900.0,
        sleep: Callable[[float], object] | None = None,
        **state: Any,
    ) -> None:
        self.log: list[str] = []
        self._now_ns = START_NS
        self._user_sleep = sleep
        self._fake = _Source()
        settings = Settings(
            hold_on=several("hold_on", hold_on),
            checkpoint_every_steps=checkpoint_every_steps,
            checkpoint_every_s=checkpoint_every_s,
            checkpoint_to=checkpoint_to,
            max_hold_s=max_hold_s,
        )
        clock = Clock(now_ns=lambda: self._now_ns, sleep=self._sleep)
        super().__init__(settings, self._fake, clock=clock, voice=Memo(self.log))
        self.set(**state)
        self.log.clear()

    def set(
        self,
        *,
        uploads: str = UNCHANGED,
        training: str = UNCHANGED,
        holds: Iterable[str] = UNCHANGED,
        checkpoint: str | None = UNCHANGED,
        stop: str | None = UNCHANGED,
        stop_in_s: float | None = None,
        local_only: bool = False,
        network: str = UNCHANGED,
        power: str = UNCHANGED,
        cause: str = UNCHANGED,
        agent: bool = True,
    ) -> None:
        """Change what the agent says; what is left out stays. Applied by the next ``step()``.

        ``checkpoint`` and ``stop`` are reasons; each call with one makes a new request.
        ``local_only`` belongs to ``checkpoint``. ``agent=False`` lets the agent fall silent.
        """
        source = self._fake
        source.serial += 1
        now_ns, mark = self._now_ns, f"fake-{source.serial}"
        deadline = None if stop_in_s is None else now_ns + int(stop_in_s * 1e9)
        advice = _changed(
            source.state.advice,
            uploads=uploads if uploads is UNCHANGED else Uploads(uploads),
            training=training if training is UNCHANGED else Training(training),
            holds=holds if holds is UNCHANGED else tuple(holds),
            checkpoint=checkpoint and _made(checkpoint, CheckpointRequest, mark, local_only),
            stop=stop and _made(stop, StopRequest, mark, deadline),
        )
        source.state = _changed(
            replace(source.state, epoch=source.serial, advice=advice),
            network=network if network is UNCHANGED else Network(network),
            power=power if power is UNCHANGED else PowerState(power),
            cause=cause if cause is UNCHANGED else (cause,),
        )
        source.alive = agent
        self._renew()
        self._apply()
        self._attention = True
        self._pump()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now_ns += int(seconds * 1e9)
        self._renew()
        self._attention = True

    def cover_sockets(
        self,
        *,
        time_s: int | None = None,
        interval_s: int | None = None,
        probes: int | None = None,
    ) -> dict[str, int]:
        """Check the values and leave the sockets of the test's process alone."""
        given_timers(time_s, interval_s, probes)
        return self.covered

    def _data_gate(self) -> Gate:
        from linkhold.client.data.gate import NoGate  # noqa: PLC0415 - who needs no data pays nothing

        return NoGate()

    def _sleep(self, seconds: float) -> None:
        self.advance(seconds)
        if self._user_sleep is not None:
            self._user_sleep(seconds)

    def _renew(self) -> None:
        """Send the heartbeat of a living agent, or age the last one of a silent agent."""
        written_ns = self._now_ns if self._fake.alive else self._now_ns - SILENT_NS
        self._fake.newest = replace(self._fake.state, mono_ns=written_ns)

    def _pump(self) -> None:
        if isinstance(self._uploader, _Inline):
            self._uploader.pump()

    def _make_uploader(self) -> Uploader:
        source = self._fake
        made = _Inline(lambda: source.gate, 0.0, self._voice)
        made.tally = Tally(lambda: self._now_ns / 1e9)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a fake Hold stays in the test that made it")


class _Source:
    """Stands for the listener."""

    def __init__(self) -> None:
        self.newest: StateView | None = None
        self.counters: dict[str, int] = {}
        self.alive = True
        self.serial = 0
        self.looked = True
        self.state = StateView(
            site="fake",
            node="fake",
            boot_id="fake",
            session="fake",
            epoch=0,
            mono_ns=START_NS,
            session_mono_ns=START_NS,
            network=Network.OK,
            power=PowerState.OK,
            advice=Advice(),
            cause=(),
            document={},
        )

    @property
    def gate(self) -> Uploads:
        return self.state.advice.uploads if self.alive else Uploads.GO

    def ensure(self) -> None:
        """Nothing to start."""

    def add(self, alarm: Callable[[], None]) -> None:
        """Nobody to call."""

    def remove(self, alarm: Callable[[], None]) -> None:
        """Nobody to forget."""

    def attend(self, chore: Callable[[], None]) -> None:
        """Nothing to do in between."""

    def neglect(self, chore: Callable[[], None]) -> None:
        """Nothing to leave undone."""

    def where(self) -> Path:
        return Path("/run/linkhold")


class _Inline(Uploader):
    """Runs uploads in the caller's thread as soon as the gate lets them."""

    def put(self, upload: Upload) -> Upload:
        self._waiting.append(upload)
        self.pump()
        return upload

    def pump(self) -> None:
        while True:
            upload = self._pick(0.0)
            if upload is None:
                return
            try:
                push_once(upload)
            except Exception as error:  # noqa: BLE001 - the handle tells, as with the real one
                upload.finish(error)
            else:
                upload.finish()
            self.tally.ended(upload)

    def drain(self, timeout_s: float, held_s: float = 0.0) -> tuple[str, ...]:
        del timeout_s, held_s
        self.pump()
        return tuple(upload.name for upload in self._waiting)

    def close(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for upload in waiting:
            upload.finish(LinkholdError("the program ended before this upload"))


def _made(reason: Any, kind: Any, mark: str, *rest: Any) -> Any:
    if reason is UNCHANGED:
        return UNCHANGED
    return kind(mark, reason, *rest)


def _changed(value: Any, **changes: Any) -> Any:
    return replace(value, **{k: v for k, v in changes.items() if v is not UNCHANGED})
