"""The Hold: what a training loop calls.

``step()`` alone applies what the agent says; everything else reads what the last step applied,
so that one iteration of the loop sees one picture.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from typing import TYPE_CHECKING, Any, NoReturn

from linkhold.client import cover, decision, fork, marker
from linkhold.client.checkpoints import Checkpoints
from linkhold.client.decision import NOBODY, Guidance
from linkhold.client.listener import Source, listener_for
from linkhold.client.pause import RESUMABLE, Clock, Pause
from linkhold.client.readings import Readings
from linkhold.client.settings import Settings, absolute, addresses, causes, given_timers
from linkhold.client.upload_calls import UploadCalls
from linkhold.client.voice import Voice, asked_to_stop, presence
from linkhold.wire import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from linkhold.client.fake import FakeHold
    from linkhold.client.upload import Uploader
    from linkhold.wire import StateView

EXIT_RESERVE_S = 5.0
"""Left of a stop's deadline for the interpreter to end."""
DRAIN_S = 60.0
DRAIN_AFTER_ERROR_S = 5.0


class Hold(Readings, UploadCalls):
    """Holds a training loop, its checkpoints and its uploads while the node is in trouble.

    Made by :meth:`connect`. One thread, the training loop's, calls :meth:`step`,
    :meth:`checkpoint_due` and :meth:`saving`; every property may be read from any thread. A
    forked or spawned child starts to listen at its own first call, and is inert until then.
    """

    def __init__(
        self,
        settings: Settings,
        source: Source | None = None,
        *,
        clock: Clock | None = None,
        voice: Voice | None = None,
    ) -> None:
        self._attention = True  # read at each step
        self._settings = settings
        self._source = source or listener_for(settings.run_dir)
        self._clock = clock or Clock()
        self._voice = voice or Voice()
        self._guidance = NOBODY
        self._view: StateView | None = None
        self._checkpoints = Checkpoints(settings, self._voice, self._clock.now_ns())
        self._step = 0
        self._pause = Pause(self._clock, self._voice, settings.max_hold_s)
        self._cover = cover.Cover(settings.exclusions, self._wanted_idle_s(), self._voice)
        self._uploader: Uploader | None = None
        self._listening = self._closed = self._greeted = False
        fork.remember(self)

    @classmethod
    def connect(
        cls,
        *,
        run_dir: str | os.PathLike[str] | None = None,
        hold_on: Iterable[str] = (),
        checkpoint_every_steps: int | None = None,
        checkpoint_every_s: float | None = None,
        checkpoint_to: str = "local",
        max_hold_s: float = 900.0,
        upload_spread_s: float = 5.0,
        cover: bool = True,
        cover_exclude_ports: Iterable[int] = (),
        cover_exclude_peers: Iterable[str] = (),
        wait_s: float = 1.0,
        logger: logging.Logger | None = None,
    ) -> Self:
        """Find the node's agent, waiting at most ``wait_s`` seconds for its first state.

        Without an agent everything passes, one log line says so, and an agent that appears later
        is heard. ``run_dir`` is the agent's run folder (default: ``$LINKHOLD_RUN_DIR``, the
        node's, the user's). ``hold_on=("network",)`` holds training itself while the network is
        down. ``checkpoint_to="remote"`` is for those who save straight over the network: no
        checkpoint is due while uploads are on hold, not even one that the agent asks for. A hold
        longer than ``max_hold_s`` raises :class:`GiveUp` out of :meth:`step`. After a hold,
        uploads start within ``upload_spread_s``, at random. ``cover`` gives keepalive to this
        process's TCP sockets, see :meth:`cover_sockets`; not to those with an excluded port,
        local or remote, or peer (an address).

        Raises :class:`TypeError` or :class:`ValueError` for an argument that is wrong.
        """
        settings = Settings(
            run_dir=absolute(run_dir),
            hold_on=causes(hold_on),
            checkpoint_every_steps=checkpoint_every_steps,
            checkpoint_every_s=checkpoint_every_s,
            checkpoint_to=checkpoint_to,
            max_hold_s=max_hold_s,
            upload_spread_s=upload_spread_s,
            cover=cover,
            cover_exclude_ports=tuple(cover_exclude_ports),
            cover_exclude_peers=addresses(cover_exclude_peers),
            wait_s=wait_s,
        )
        listener = listener_for(settings.run_dir)
        hold = cls(settings, listener, voice=Voice(logger))
        hold._listen()
        listener.wait_first(wait_s)
        hold._apply()
        return hold

    @staticmethod
    def fake(**state: Any) -> FakeHold:
        """Return a Hold for tests of training code: see :class:`linkhold.client.fake.FakeHold`."""
        from linkhold.client.fake import FakeHold  # noqa: PLC0415 - it is made of Hold

        return FakeHold(**state)

    def step(self, step: int) -> None:
        """Mark a step boundary; blocks while training is on hold.

        ``step`` is the global step. Raises :class:`GiveUp` after ``max_hold_s`` of hold.
        """
        self._step = step
        if self._attention:
            self._attend()

    def checkpoint_due(self, step: int) -> bool:
        """Tell whether to save now: periodically, or because of power, a notice or a stop."""
        if not self._listening:
            self._listen()
        now_ns = self._clock.now_ns()
        return self._checkpoints.due(step, self._in_force(now_ns), now_ns)

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Measure a save, and count what asked for it as served if the body succeeds.

        After an exception, which passes through, the checkpoint is due again after a pause.
        """
        began_ns = self._clock.now_ns()
        answered = self._checkpoints.begin(self._in_force(began_ns))
        try:
            yield
        except BaseException:
            self._checkpoints.fail(self._clock.now_ns())
            raise
        self._checkpoints.finish(answered, began_ns, self._clock.now_ns())

    def cover_sockets(
        self,
        *,
        time_s: int | None = None,
        interval_s: int | None = None,
        probes: int | None = None,
    ) -> dict[str, int]:
        """Give keepalive to this process's TCP sockets now, and to new ones within 5 s.

        A firewall or load balancer forgets a connection that is silent for minutes, and nearly no
        training library asks for keepalive. Sockets that stay in this machine or have a setting
        of their own are left alone. ``time_s`` is the silence before the first probe (default:
        what the node's agent wants, else 60), ``interval_s`` at most 60 by default, ``probes``
        127, so that an outage of hours is survived. Returns :attr:`covered`.

        Raises :class:`TypeError` or :class:`ValueError` for a value that a socket does not take.
        """
        timers = given_timers(time_s, interval_s, probes)
        if timers is not None:
            self._cover.fix(timers)
        if not self._closed:
            self._listen()
            self._source.attend(self._cover.tick)
        return self._cover.scan()

    def exit(self, code: int = RESUMABLE) -> NoReturn:
        """End the program resumably: raises :class:`SystemExit` with ``code``.

        First a marker for the launcher is written (``$LINKHOLD_STOP_MARKER``, else
        ``.linkhold-stop`` in the working folder; JSON with reason, at, step, code), then uploads
        are finished as in :meth:`close`, until 5 s before the deadline, for 60 s without one.
        While they are on hold and none is under way it waits no longer than 60 s in a row,
        however far away the deadline is.
        """
        reason, left_s = self.stop_reason or "asked by the program", self.seconds_left
        content = {"reason": reason, "at": rfc3339(time.time()), "step": self._step, "code": code}
        problem = marker.leave({**content, "pid": os.getpid()})
        if problem is not None:
            self._voice.warning(f"no stop marker for the launcher: {problem}")
        self._voice.info(f"ending at step {self._step}, exit code {code}: {reason}")
        self._end(DRAIN_S if left_s is None else max(0.0, left_s - EXIT_RESERVE_S), DRAIN_S)
        raise SystemExit(code)

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Finish uploads within ``drain_s`` seconds and stop listening; may be called twice.

        A hold may end, so uploads on hold are waited for. While only the newest may go it waits
        for that one and for the one under way, not for older ones.
        """
        self._end(drain_s, drain_s)

    def _end(self, drain_s: float, held_s: float) -> None:
        if self._closed:
            return
        self._closed = True
        self._end_uploads(drain_s, held_s)
        self._source.remove(self._raise_attention)
        self._source.neglect(self._cover.tick)
        self._guidance, self._attention = NOBODY, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(DRAIN_S if kind is None else DRAIN_AFTER_ERROR_S)

    def __reduce__(self) -> tuple[Any, ...]:
        """Carry the settings to another process, where the copy connects at its first call."""
        return _revive, (type(self), self._settings, self._voice.logger_name)

    def after_fork(self) -> None:
        """Be inert in a forked child until it calls (see :mod:`linkhold.client.fork`)."""
        self._listening = False
        self._attention = not self._closed
        self._uploads_after_fork()

    def _listen(self) -> None:
        if self._closed:
            return
        if not self._listening:
            self._listening = True
            self._source.add(self._raise_attention)
            cover.mark.show()
            if self._settings.cover:
                self._source.attend(self._cover.tick)
        self._source.ensure()  # last: its thread ends when nobody is there to tell

    def _wanted_idle_s(self) -> Callable[[], int | None]:
        source = self._source  # not self: the listener's thread keeps no Hold alive
        return lambda: cover.wanted_idle_s(source.newest)

    def _raise_attention(self) -> None:
        self._attention = True

    def _attend(self) -> None:
        self._listen()
        self._attention = False  # before looking, so that a change meanwhile is seen
        self._apply()
        try:
            why = self._must_wait()
            if why is not None:
                self._pause.wait_out(why, self._look_again)
        finally:
            if self._guidance.hold is not None:
                self._attention = True

    def _look_again(self) -> str | None:
        self._apply()
        return self._must_wait()

    def _apply(self) -> None:
        """Make the newest state the one that counts, and say what it changes."""
        now_ns = self._clock.now_ns()
        before, self._view = self._guidance, self._source.newest
        self._guidance = decision.guide(self._settings, self._view, now_ns)
        self._announce(before, self._guidance, now_ns)

    def _must_wait(self) -> str | None:
        """Return why training is on hold; a stop or an unserved checkpoint goes first."""
        guidance = self._guidance
        if guidance.hold is None or guidance.stop is not None:
            return None
        if self._checkpoints.goes_first(guidance, self._clock.now_ns()):
            return None
        return guidance.hold

    def _announce(self, before: Guidance, after: Guidance, now_ns: int) -> None:
        if self._greeted:
            changed = before.present is not after.present
        else:
            changed = self._greeted = after.present or self._source.looked
        if changed:
            text = presence(after, self._view, self._source.where())
            self._voice.presence(present=after.present, text=text, now_ns=now_ns)
        if after.stop is not None and (before.stop is None or before.stop.id != after.stop.id):
            self._voice.warning(asked_to_stop(after.stop, now_ns))


def _revive(kind: type[Hold], settings: Settings, logger_name: str) -> Hold:
    return kind(settings, voice=Voice(logging.getLogger(logger_name)))
