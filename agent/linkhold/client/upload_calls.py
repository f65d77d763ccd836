"""What a Hold offers for uploads."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from linkhold import model
from linkhold.client import decision, kin, storage
from linkhold.client.outgoing import Outgoing
from linkhold.client.retry.breaker import Breaker
from linkhold.client.upload import Uploader
from linkhold.client.upload_handle import UploadsOnHold

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from linkhold.client.listener import Source
    from linkhold.client.pause import Clock, Pause
    from linkhold.client.settings import Settings
    from linkhold.client.spool.spooler import Spooled
    from linkhold.client.upload_handle import Upload
    from linkhold.client.voice import Voice

_dice = random.SystemRandom()  # never the global generator: training runs are seeded


class UploadCalls:
    """The upload side of a :class:`linkhold.client.Hold`, which sets the fields."""

    _settings: Settings
    _source: Source
    _clock: Clock
    _pause: Pause
    _voice: Voice
    _uploader: Uploader | None
    _outgoing: Outgoing | None = None
    _listening: bool
    _closed: bool

    def upload(
        self, source: Any, push: Callable[[Any], object], *, name: str | None = None
    ) -> Upload:
        """Run ``push(source)`` beside training, when uploads may go; never blocks.

        Uploads run one at a time, in order; an exception of ``push`` is retried with growing
        random pauses. ``push`` must name its destination itself: after a notice the newest goes
        first. The answer tells how it went; ``name`` is what the log calls it.

        With a spool a local file or folder is copied there, ``push`` gets the copy, which has the
        same last name, and :meth:`resume_uploads` finds it in the next process.

        Raises :class:`TypeError` for a ``push`` that cannot be called, and nothing else.
        """
        return self._ready().push(source, called("upload", push), name)

    def upload_to(
        self,
        url: str | os.PathLike[str],
        source: str | os.PathLike[str],
        *,
        name: str | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> Upload:
        """Upload a file or folder to ``url`` by fsspec, beside training; never blocks.

        ``hold.upload_to("s3://bucket/run/step-500.pt", "step-500.pt")``; a url that ends with /
        gets the source's name. ``storage_options`` are those of fsspec for this storage. Nothing
        is seen there before all of it has arrived, and its size is checked, its content where the
        storage tells a checksum. With a spool the next process goes on with it by itself. An older
        upload never replaces a newer one to the same url. What fails is in the answer's ``error``
        and in the log, such as a package that is missing.

        Raises :class:`TypeError` or :class:`ValueError` for what is no address or path.
        """
        options = _options(storage_options)
        return self._ready().send(storage.full_address(url, source), source, name, options)

    @contextlib.contextmanager
    def uploading(self, *, wait: bool = True, timeout_s: float | None = None) -> Iterator[None]:
        """Surround code of your own that uploads now, in this thread.

        While uploads are on hold it waits, at most ``timeout_s`` seconds (default: the Hold's
        ``max_hold_s``), watchdogs being fed, or with ``wait=False`` not at all. Then it raises
        :class:`UploadsOnHold`, before the code has begun. After a hold it begins at random within
        ``upload_spread_s``. A hold that comes later does not interrupt the code.
        """
        limit_s = self._limit_s(timeout_s) if wait else 0.0
        if not self._listening:
            self._listen()
        if self._held():
            self._wait_for_uploads(limit_s)
        yield

    def spooled(self) -> tuple[Spooled, ...]:
        """Return what waits in the spool, of all processes, the newest first."""
        return self._ready().listing()

    def resume_uploads(self, push: Callable[[Any], object], *, name: str | None = None) -> None:
        """Take up what earlier processes left in the spool for :meth:`upload`; never blocks.

        ``push`` is called with the copy of each upload that was called ``name`` (None: of each
        that no other name claims), the newest first, after the uploads of this process.
        :meth:`upload_to` needs no such call.
        """
        self._ready().resume(called("resume_uploads", push), name)

    def _begin_uploads(self) -> None:
        """Take up what is in the spool; nothing without one."""
        if self._settings.spool is not None:
            self._ready()

    def _ready(self) -> Outgoing:
        if not self._listening:
            self._listen()
        if self._uploader is None or self._outgoing is None:
            self._uploader = self._make_uploader()
            self._outgoing = Outgoing(self._uploader, self._settings, self._voice)
            if self._closed:
                self._outgoing.end(0.0, 0.0)
            else:
                self._outgoing.begin()
        return self._outgoing

    def _listen(self) -> None:
        raise NotImplementedError

    def _make_uploader(self) -> Uploader:
        source, settings, now_ns = self._source, self._settings, self._clock.now_ns
        breakers: defaultdict[str, Breaker] = defaultdict(Breaker)

        def gate() -> model.Uploads:
            return decision.guide(settings, source.newest, now_ns(), kin.means_us).uploads

        def breaker_of(store: str) -> Breaker | None:
            return breakers[store] if store else None

        return Uploader(gate, settings.upload_spread_s, self._voice, breaker_of)

    def _held(self) -> str | None:
        """Say why uploads are on hold, None when they may go."""
        view = self._source.newest
        advice = decision.guide(self._settings, view, self._clock.now_ns(), kin.means_us)
        if view is None or advice.uploads is not model.Uploads.HOLD:
            return None
        return f"uploads are held: {decision.why(view)}"

    def _limit_s(self, timeout_s: float | None) -> float:
        if timeout_s is None:
            return self._settings.max_hold_s
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, (int, float)):
            raise TypeError(f"timeout_s: {timeout_s!r} is no number of seconds")
        if not timeout_s >= 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is out of range")
        return timeout_s

    def _wait_for_uploads(self, limit_s: float) -> None:
        began_ns, start_ns = self._clock.now_ns(), 0

        def look() -> str | None:
            nonlocal start_ns
            why, now_ns = self._held(), self._clock.now_ns()
            if why is not None:
                start_ns = 0
                if now_ns - began_ns >= limit_s * 1e9:
                    raise UploadsOnHold(_still(why, limit_s))
                return why
            if start_ns == 0:
                spread_s = self._settings.upload_spread_s
                start_ns = now_ns + int(_dice.uniform(0, spread_s) * 1e9)
            return None if now_ns >= start_ns else "a random pause before uploads start again"

        why = look()
        if why is not None:
            self._pause.wait_out(why, look)

    def _end_uploads(self, drain_s: float, held_s: float) -> None:
        if self._outgoing is not None:
            self._outgoing.end(drain_s, held_s)

    def _uploads_after_fork(self) -> None:
        if self._outgoing is not None:
            self._outgoing.after_fork()
        self._uploader = self._outgoing = None


def called(what: str, push: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return ``push``; raises :class:`TypeError` where it would fail at each of many attempts."""
    if inspect.iscoroutinefunction(push):
        raise TypeError(
            f"{what}: push is a coroutine function; write lambda path: asyncio.run(push(path))"
        )
    if not callable(push):
        raise TypeError(
            f"{what}: push is {push!r}, which cannot be called; write {what}(..., push)"
        )
    return push


def _options(given: dict[str, Any] | None) -> dict[str, Any]:
    if given is None or isinstance(given, dict):
        return dict(given or {})
    raise TypeError(f"upload_to: storage_options is {given!r}, and no dict")


def _still(why: str, waited_s: float) -> str:
    waited = f" after {waited_s:g} s" if waited_s else ""
    return f"{why}; still so{waited}. Try again later, or use upload(), which waits beside training"
