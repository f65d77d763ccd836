"""Uploads beside training: one worker thread, a bounded queue, retries while the gate is open.

The gate is the stop condition of the retries: while uploads are on hold there is no attempt at
all, which saves more load than any back-off. When it opens again each client starts after a
random delay, so that a recovering storage does not meet all of them at once.

Each turn of an upload begins with an attempt, and only in the pause after a failed one may it lose
its turn: whatever the gate says, and however often it changes, the worker cannot spin.
"""

from __future__ import annotations

import bisect
import math
import random
import threading
import time
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from linkhold.client import fork
from linkhold.client.summary import Tally
from linkhold.client.upload_handle import (
    Elsewhere,
    GiveWay,
    Upload,
    asked_s,
    no_breaker,
    push_once,
    words,
)
from linkhold.client.upload_tries import tries
from linkhold.model import LinkholdError, Uploads

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.upload_handle import Breakers
    from linkhold.client.voice import Voice

MAX_WAITING = 64
SLICE_S = 0.5
IDLE_S = 30.0
"""A worker without work ends after this; the next upload starts another."""

_dice = random.SystemRandom()
"""Own dice: the global generator belongs to the training run, and all ranks seed it alike."""


class _PutBack(Exception):
    """The upload lost its turn in a pause between two attempts, and waits for the next."""


class Uploader:
    """The queue and the worker thread of one Hold."""

    def __init__(
        self,
        gate: Callable[[], Uploads],
        spread_s: float,
        voice: Voice,
        breakers: Breakers = no_breaker,
    ) -> None:
        self._gate = gate
        self._breakers = breakers
        self._spread_s = spread_s
        self._voice = voice
        self._waiting: deque[Upload] = deque()
        self._running: Upload | None = None
        self._resting = False
        self._closed = self._hurry = self._was_held = False
        self._start_at_s = 0.0
        self._newest_taken = -math.inf
        self.tally = Tally()
        self._renew()

    def _renew(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, source: Any, push: Callable[[Any], object], name: str | None) -> Upload:
        """Queue ``push(source)``; never waits. When the queue is full the oldest one yields."""
        return self.put(Upload(source, push, name))

    def put(self, upload: Upload) -> Upload:
        """Queue an upload in its order; never waits. When full the oldest one yields."""
        fork.import_whole("tenacity")
        surplus = None
        with self._changed:
            closed = self._closed
            if not closed:
                bisect.insort(self._waiting, upload, key=attrgetter("order"))
                surplus = self._surplus()
                self._ensure_worker(upload)
                self._changed.notify_all()
        if closed:
            upload.finish(LinkholdError("this Hold is closed"))
        if surplus is not None:
            surplus.finish(LinkholdError(f"superseded: {MAX_WAITING} newer uploads wait"))
            self._voice.warning(f"upload of {surplus.name} given up: {surplus.error}")
        return upload

    def waits(self, upload: Upload) -> bool:
        """Tell whether an upload is queued and not under way."""
        with self._changed:
            return upload in self._waiting

    def gives_way(self, upload: Upload) -> bool:
        """Tell whether an upload under way must let a newer one pass: only the newest may go."""
        with self._changed:
            return not self._closed and self._overtaken(upload)

    def withdraw(self, upload: Upload) -> bool:
        """Take an upload out of the queue; return whether it was still waiting there."""
        with self._changed:
            found = upload in self._waiting
            if found:
                self._waiting.remove(upload)
                self._changed.notify_all()
            return found

    def drain(self, timeout_s: float, held_s: float = math.inf) -> tuple[str, ...]:
        """Wait at most ``timeout_s`` for all uploads; return the names of those left.

        Does not wait for older ones while only the newest may go, nor longer than ``held_s`` in
        a row while uploads are on hold and none is under way.
        """
        with self._changed:
            self._hurry = True  # whoever is about to end does not spread its load
            self._changed.notify_all()
            moved_s = time.monotonic()
            end_s = moved_s + timeout_s
            while self._in_reach():
                now_s = time.monotonic()
                if not self._stuck():
                    moved_s, left_s = now_s, end_s - now_s
                else:
                    left_s = min(end_s, moved_s + held_s) - now_s
                if left_s <= 0:
                    break
                self._changed.wait(min(left_s, SLICE_S))
            return tuple(upload.name for upload in self._left())

    def close(self) -> None:
        """Start nothing more; what waits ends with an error. Does not wait."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for upload in waiting:
            upload.finish(LinkholdError("the program ended before this upload"))

    def after_fork(self) -> None:
        """Forget in the child what the parent uploads."""
        for upload in self._left():
            upload.orphan()
        self._waiting, self._running, self._resting = deque(), None, False
        self._renew()

    def _left(self) -> list[Upload]:
        return ([self._running] if self._running else []) + list(self._waiting)

    def _surplus(self) -> Upload | None:
        ours = [upload for upload in self._waiting if upload.serial > 0]
        if len(ours) <= MAX_WAITING:
            return None
        self._waiting.remove(ours[0])
        return ours[0]

    def _in_reach(self) -> bool:
        """Tell whether any upload may still end, now or once a hold is over."""
        if self._gate() is Uploads.NEWEST:
            return self._running is not None or self._newest() is not None
        return bool(self._left())

    def _stuck(self) -> bool:
        """Tell whether nothing can go: all on hold and none in the middle of its push."""
        return self._gate() is Uploads.HOLD and (self._running is None or self._resting)

    def _ensure_worker(self, upload: Upload) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._work, name="linkhold-upload", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._waiting.remove(upload)
            upload.finish(error)

    def _work(self) -> None:
        while True:
            upload = self._next()
            if upload is None:
                return
            put_back = self._run(upload)
            with self._changed:
                self._running = None
                if not put_back:
                    self.tally.ended(upload)
                if put_back and not self._closed:
                    bisect.insort(self._waiting, upload, key=attrgetter("order"))
                self._changed.notify_all()
            if put_back and self._closed:
                upload.finish(LinkholdError("the program ended before this upload"))
            del upload  # an idle worker keeps no checkpoint alive

    def _next(self) -> Upload | None:
        with self._changed:
            while not self._closed:
                self._running = self._pick(time.monotonic())
                if self._running is not None:
                    return self._running
                if self._waiting:
                    self._changed.wait(SLICE_S)
                elif not self._changed.wait(IDLE_S) and not self._waiting:
                    break
            self._thread = None
            return None

    def _pick(self, now_s: float) -> Upload | None:
        """Choose the upload that may start now: in order, or the newest one alone."""
        if not self._waiting:
            return None
        gate = self._gate()
        if gate is Uploads.HOLD:
            self._was_held = True
            self.tally.hold(self._waiting)
            return None
        self.tally.go()
        if gate is Uploads.NEWEST:
            return self._take(self._newest())
        if self._was_held:
            self._was_held = False
            self._start_at_s = now_s + _dice.uniform(0, self._spread_s)
        if now_s < self._start_at_s and not self._hurry:
            return None
        picked = (self._take(upload) for upload in tuple(self._waiting))
        return next((upload for upload in picked if upload is not None), None)

    def _take(self, upload: Upload | None) -> Upload | None:
        """Take an upload out of the queue unless its store is known to be out of order."""
        if upload is None or not self._allows(upload):
            return None
        self._waiting.remove(upload)
        self._newest_taken = max(self._newest_taken, upload.serial)
        return upload

    def _allows(self, upload: Upload) -> bool:
        """Ask the store's breaker for leave; whoever gets it makes an attempt."""
        breaker = self._breakers(upload.store)
        upload.permit = None if breaker is None else breaker.admit()
        return breaker is None or upload.permit is not None

    def _newest(self) -> Upload | None:
        """Return the waiting upload that may go when only the newest may."""
        newest = max(self._waiting, key=lambda upload: upload.serial, default=None)
        return None if newest is None or newest.serial < self._newest_taken else newest

    def _run(self, upload: Upload) -> bool:
        """Try until it is done; return whether it must wait for the gate again."""
        try:
            for attempt in tries(upload, self._rest, self._report):
                with attempt:
                    self._attempt(upload)
        except (_PutBack, GiveWay):
            return True
        except BaseException as error:  # noqa: BLE001 - a push may raise whatever it likes
            upload.finish(error)
            kept = "; it stays in the spool" if upload.kept else ""
            self._voice.warning(f"upload of {upload.name} failed for good: {words(error)}{kept}")
        else:
            upload.finish()
            if upload.attempts > 1:
                self._voice.info(f"upload of {upload.name} done at attempt {upload.attempts}")
        return False

    def _attempt(self, upload: Upload) -> None:
        error: BaseException | None = None
        try:
            push_once(upload)
        except BaseException as raised:
            error = raised
            raise
        finally:
            if isinstance(error, (Elsewhere, GiveWay)):
                upload.attempts -= 1
            self._tell_breaker(upload, error)

    def _tell_breaker(self, upload: Upload, error: BaseException | None) -> None:
        breaker, permit = self._breakers(upload.store), upload.permit
        if breaker is None or permit is None:
            return
        if error is None:
            breaker.succeeded(permit)
        elif upload.retryable(error):
            breaker.failed(permit, asked_s(error))
        else:
            breaker.forgot(permit)

    def _rest(self, upload: Upload, pause_s: float) -> None:
        """Pause before the next attempt; raises :class:`_PutBack` when it must not follow."""
        end_s = time.monotonic() + pause_s
        with self._changed:
            self._resting = True
            while not (overtaken := self._overtaken(upload)):
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(min(left_s, SLICE_S))
            self._resting = False
            if overtaken or self._gate() is Uploads.HOLD or not self._allows(upload):
                raise _PutBack

    def _overtaken(self, upload: Upload) -> bool:
        """Tell whether a pause need not be sat out: the program ends, or a newer one may go."""
        if self._closed or self._gate() is not Uploads.NEWEST:
            return self._closed
        newest = self._newest()
        return newest is not None and newest.serial > upload.serial

    def _report(self, upload: Upload, error: BaseException, pause_s: float) -> None:
        if upload.attempts & (upload.attempts - 1) == 0:  # 1, 2, 4, 8: a long fault, few lines
            self._voice.warning(
                f"upload of {upload.name}: attempt {upload.attempts} failed, "
                f"next in {pause_s:.1f} s: {words(error)}"
            )
