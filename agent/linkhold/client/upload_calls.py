"""What a Hold offers for uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.client import decision
from linkhold.client.upload import Upload, Uploader

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold import model
    from linkhold.client.listener import Source
    from linkhold.client.pause import Clock
    from linkhold.client.settings import Settings
    from linkhold.client.voice import Voice


class UploadCalls:
    """The upload side of a :class:`linkhold.client.Hold`, which sets the fields."""

    _settings: Settings
    _source: Source
    _clock: Clock
    _voice: Voice
    _uploader: Uploader | None
    _listening: bool
    _closed: bool

    def upload(
        self, source: Any, push: Callable[[Any], object], *, name: str | None = None
    ) -> Upload:
        """Run ``push(source)`` beside training, when uploads may go; never blocks nor raises.

        Uploads run one at a time, in order; an exception of ``push`` is retried with growing
        random pauses. ``push`` must name its destination itself: after a notice the newest goes
        first. The answer tells how it went; ``name`` is what the log calls it.
        """
        if not self._listening:
            self._listen()
        if self._uploader is None:
            self._uploader = self._make_uploader()
            if self._closed:
                self._uploader.close()
        return self._uploader.add(source, push, name)

    def _listen(self) -> None:
        raise NotImplementedError

    def _make_uploader(self) -> Uploader:
        source, settings, now_ns = self._source, self._settings, self._clock.now_ns

        def gate() -> model.Uploads:
            return decision.guide(settings, source.newest, now_ns()).uploads

        return Uploader(gate, settings.upload_spread_s, self._voice)

    def _end_uploads(self, drain_s: float, held_s: float) -> None:
        if self._uploader is not None:
            left = self._uploader.drain(drain_s, held_s)
            self._uploader.close()
            if left:
                self._voice.warning(f"{len(left)} uploads not done: {', '.join(left)}")

    def _uploads_after_fork(self) -> None:
        if self._uploader is not None:
            self._uploader.after_fork()
