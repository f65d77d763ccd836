"""The Hold: what a training loop calls.

``step()`` alone applies what the agent says; everything else reads what the last step applied,
so that one iteration of the loop sees one picture.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from linkhold.client import cover, fork, watchdogs
from linkhold.client.agreement.asking import PROGRAM
from linkhold.client.boundary import ALONE, Together
from linkhold.client.checkpoints import Checkpoints
from linkhold.client.data_calls import DataCalls
from linkhold.client.decision import NOBODY
from linkhold.client.ending import Ending
from linkhold.client.listener import Source, listener_for
from linkhold.client.pause import Clock, GiveUp, Pause
from linkhold.client.settings import (
    SPOOL_BYTES,
    SPOOL_COUNT,
    SPOOL_FLOOR_BYTES,
    Settings,
    absolute,
    addresses,
    given_timers,
    several,
    step_number,
)
from linkhold.client.summary import calls_so_far
from linkhold.client.telling import Teller
from linkhold.client.voice import Voice, checked
from linkhold.model import StopRequest

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from linkhold.client.fake import FakeHold
    from linkhold.client.upload import Uploader
    from linkhold.wire import StateView


class Hold(Ending, DataCalls):
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
        self._guidance = self._own = NOBODY
        self._view: StateView | None = None
        self._asked: StopRequest | None = None
        self._checkpoints = Checkpoints(settings, self._voice, self._clock.now_ns())
        self._step = 0
        self._calls_before = calls_so_far()
        self._teller = Teller()
        self._pause = Pause(self._clock, self._voice, settings.max_hold_s)
        self._cover = cover.Cover(settings.exclusions, self._wanted_idle_s(), self._voice)
        self._uploader: Uploader | None = None
        self._together: Together | None = None
        self._ahead = ALONE
        self._ever_holds = not watchdogs.under_torchft()
        self._listening = self._closed = self._greeted = self._joined = self._dissolved = False
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
        agree: str | None = None,
        heartbeat: Any = None,
        spool: str | os.PathLike[str] | None = None,
        spool_max_bytes: int = SPOOL_BYTES,
        spool_max_count: int = SPOOL_COUNT,
        spool_free_floor_bytes: int = SPOOL_FLOOR_BYTES,
        wait_s: float = 1.0,
        logger: logging.Logger | None = None,
    ) -> Self:
        """Find the node's agent, waiting at most ``wait_s`` seconds for its first state.

        Without an agent everything passes, one log line says so, and an agent that appears later
        is heard. ``run_dir`` is the agent's run folder (default: ``$LINKHOLD_RUN_DIR``, the
        node's, the user's). ``hold_on=("network",)`` holds training itself while the network is
        down. ``checkpoint_to="remote"`` is for those who save straight over the network: no
        checkpoint is due while uploads are on hold, not even one that the agent asks for. A hold
        longer than ``max_hold_s`` raises :class:`GiveUp` out of :meth:`step`; out of a ``with``
        block of the Hold it ends the program as :meth:`exit` does. After a hold,
        uploads start within ``upload_spread_s``, at random. ``cover`` gives keepalive to this
        process's TCP sockets, see :meth:`cover_sockets`; not to those with an excluded port,
        local or remote, or peer (an address).

        ``agree="torch"`` lets all ranks of torch.distributed hold, save and stop at the same
        step; every rank passes it, and calls :meth:`step` for each of its steps. Where
        torch.distributed is not initialised yet, the first :meth:`step` begins it. ``heartbeat``
        is called while this rank waits, to keep a watchdog quiet: a function, or the
        RankMonitorClient of nvidia-resiliency-ext.

        ``spool`` is a folder on a local disk where uploads outlive this process: the next one that
        names it takes them up. It may be shared by the ranks of a node. At most
        ``spool_max_bytes`` in ``spool_max_count`` uploads are kept, the newest ones, while
        ``spool_free_floor_bytes`` of its disk stay free.

        Raises :class:`TypeError` or :class:`ValueError` for an argument that is wrong.
        """
        settings = Settings(
            run_dir=absolute("run_dir", run_dir),
            hold_on=several("hold_on", hold_on),
            checkpoint_every_steps=checkpoint_every_steps,
            checkpoint_every_s=checkpoint_every_s,
            checkpoint_to=checkpoint_to,
            max_hold_s=max_hold_s,
            upload_spread_s=upload_spread_s,
            cover=cover,
            cover_exclude_ports=several("cover_exclude_ports", cover_exclude_ports),
            cover_exclude_peers=addresses(cover_exclude_peers),
            wait_s=wait_s,
            agree=agree,
            spool=absolute("spool", spool),
            spool_max_bytes=spool_max_bytes,
            spool_max_count=spool_max_count,
            spool_free_floor_bytes=spool_free_floor_bytes,
        )
        feed, told = watchdogs.heartbeat_of(heartbeat), Voice(checked(logger))
        listener = listener_for(settings.run_dir)
        hold = cls(settings, listener, voice=told)
        hold.on_wait = feed
        hold._listen()
        listener.wait_first(wait_s)
        hold._begin()
        hold._begin_uploads()
        return hold

    @staticmethod
    def fake(**state: Any) -> FakeHold:
        """Return a Hold for tests of training code: see :class:`linkhold.client.fake.FakeHold`."""
        from linkhold.client.fake import FakeHold  # noqa: PLC0415 - it is made of Hold

        return FakeHold(**state)

    def step(self, step: int) -> None:
        """Mark a step boundary; blocks while training is on hold.

        ``step`` is the global step. Raises :class:`GiveUp` after ``max_hold_s`` of hold, on all
        ranks at once. With ``agree``, also what the collective raises: :class:`RuntimeError` when
        a rank died or the process group's timeout passed.
        """
        self._step = step
        self._ahead -= 1
        if self._attention or self._ahead <= 0:
            self._attend()

    def checkpoint_due(self, step: int) -> bool:
        """Tell whether to save now: periodically, or because of power, a notice or a stop.

        Raises :class:`TypeError` for what is no whole number.
        """
        if type(step) is not int:
            step = step_number("checkpoint_due", step)
        if not self._listening:
            self._listen()
        now_ns = self._clock.now_ns()
        return self._checkpoints.due(step, self._in_force(now_ns), now_ns)

    def ask_to_stop(self, reason: str = "asked by the program") -> None:
        """Let all ranks save and stop at one step, as a notice from the agent does.

        It only takes a note, which the next steps act on: what a signal handler may call, where
        :meth:`exit` would wait for ranks that sit in a collective. :attr:`stop_due` tells it.
        """
        self._asked = StopRequest(PROGRAM, str(reason), None)
        self._attention = True

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        elif isinstance(error, GiveUp):
            self._leave(str(error), error.exit_code)  # torchrun would start all ranks again
        else:
            self._close_after_error()

    def __reduce__(self) -> tuple[Any, ...]:
        """Carry the settings to another process, where the copy connects at its first call."""
        return _revive, (type(self), self._settings, self._voice.logger_name)

    def after_fork(self) -> None:
        """Be inert in a forked child until it calls (see :mod:`linkhold.client.fork`)."""
        self._listening = False
        self._joined = self._together is not None  # a child is no rank of its parent's group
        self._together, self._ahead = None, ALONE
        self._attention = not self._closed
        self._uploads_after_fork()

    def _listen(self) -> None:
        if self._closed:
            return
        if not self._listening:
            self._listening = True
            self._source.add(self._raise_attention)
            cover.mark.show()
            self._source.attend(self._tell_numbers)
            if self._settings.cover:
                self._source.attend(self._cover.tick)
        self._source.ensure()  # last: its thread ends when nobody is there to tell

    def _wanted_idle_s(self) -> Callable[[], int | None]:
        source = self._source  # not self: the listener's thread keeps no Hold alive
        return lambda: cover.wanted_idle_s(source.newest)

    def _raise_attention(self) -> None:
        self._attention = True


def _revive(kind: type[Hold], settings: Settings, logger_name: str) -> Hold:
    return kind(settings, voice=Voice(logging.getLogger(logger_name)))
