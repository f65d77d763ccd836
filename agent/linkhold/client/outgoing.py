"""What goes out of one process: the uploads of a Hold, on their way to the worker.

Here meet the queue, the order of uploads to one address, and the spool where there is one.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.client import local_files, storage
from linkhold.client.spool.entry import new_id
from linkhold.client.spool.manifest import Manifest, divide, unite
from linkhold.client.spool.policy import Limits
from linkhold.client.spool.spooler import Spool, Spooled
from linkhold.client.spool.turns import Turns
from linkhold.client.upload_handle import Upload, is_local
from linkhold.model import LinkholdError, Unavailable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from linkhold.client.settings import Settings
    from linkhold.client.upload import Uploader
    from linkhold.client.voice import Voice

MOST_NAMES = 1024
"""Stores whose options, and names whose pushes are remembered."""


class Outgoing:
    """Makes uploads and hands them to the spool or to the worker; never waits, raises nothing."""

    def __init__(self, uploader: Uploader, settings: Settings, voice: Voice) -> None:
        self._uploader = uploader
        self._voice = voice
        self._root = settings.spool
        self._limits = Limits(
            max_bytes=settings.spool_max_bytes,
            max_count=settings.spool_max_count,
            free_floor_bytes=settings.spool_free_floor_bytes,
        )
        self._lock = threading.Lock()
        self._turns = Turns(None if self._root is None else self._root / "turns")
        self._options: dict[str, dict[str, Any]] = {}
        self._pushes: dict[str | None, Callable[[Any], object]] = {}
        self._spool = self._make_spool()

    def _make_spool(self) -> Spool | None:
        if self._root is None:
            return None
        return Spool(self._root, self._limits, self._uploader, self._voice, self._revive)

    def begin(self) -> None:
        """Take up what is in the spool."""
        if self._spool is not None:
            self._spool.look_for_more()

    def push(self, source: Any, push: Callable[[Any], object], name: str | None) -> Upload:
        """Queue ``push(source)``; with a spool, of a copy of ``source`` if that is a local path."""
        upload = Upload(source, push, name)
        if self._spool is None or not _exists(source):
            return self._uploader.put(upload)
        manifest = _manifest(Path(source), upload.name)
        self._spool.take(upload, new_id(), manifest)
        return upload

    def send(
        self, url: str, source: str | os.PathLike[str], name: str | None, options: dict[str, Any]
    ) -> Upload:
        """Queue an upload to an address of fsspec."""
        upload_id, path = new_id(), Path(source).absolute()
        upload = Upload(
            path,
            _refused,
            name or storage.shown(url),
            store=storage.store_of(url),
            retryable=storage.retryable,
        )
        try:
            found = local_files.look(path)
        except (OSError, LinkholdError) as error:
            return self._refuse(upload, error)
        self._turns.expect(url, upload_id)
        whole = self._remember(upload.store, options)
        upload.guard = found
        self._aim(upload, storage.Push(url, whole), upload_id)
        why = storage.missing(url)
        if self._spool is None:
            return self._refuse(upload, Unavailable(why)) if why else self._uploader.put(upload)
        kept, withheld = divide(whole)
        manifest = _manifest(path, upload.name, url=url, options=kept, withheld=withheld)
        self._spool.take(upload, upload_id, manifest)
        return upload

    def resume(self, push: Callable[[Any], object], name: str | None) -> None:
        """Let ``push`` take up what earlier processes left for a push, of this name or of any."""
        if len(self._pushes) < MOST_NAMES:
            self._pushes[name] = push
        if self._spool is None:
            self._voice.warning("resume_uploads() without a spool: give Hold.connect(spool=...)")
        else:
            self._spool.look_for_more()

    def listing(self) -> tuple[Spooled, ...]:
        """Return what is in the spool, the newest first."""
        return () if self._spool is None else self._spool.listing()

    def end(self, drain_s: float, held_s: float) -> None:
        """Wait for uploads as :meth:`Uploader.drain` does, then start no more; say what is left."""
        if self._spool is not None:
            began_s = time.monotonic()
            self._spool.settle(drain_s)
            drain_s = max(0.0, drain_s - (time.monotonic() - began_s))
        left = self._uploader.drain(drain_s, held_s)
        if self._spool is not None:
            self._spool.close()
        self._uploader.close()
        if left:
            what = "upload" if len(left) == 1 else "uploads"
            self._voice.warning(f"{len(left)} {what} not done: {', '.join(left)}{self._fate()}")

    def after_fork(self) -> None:
        """Forget in a child what the parent uploads; it makes an Outgoing of its own."""
        self._uploader.after_fork()
        if self._spool is not None:
            self._spool.after_fork()

    def _fate(self) -> str:
        if self._spool is None or not self._spool.listing():
            return ""
        return f"; what is in {self._spool.root} is taken up by the next process"

    def _revive(self, upload_id: str, manifest: Manifest, path: Path, serial: int) -> Upload | None:
        """Make an upload of what an earlier process left, None if something is missing for it."""
        if manifest.url is None:
            push = self._pushes.get(manifest.name, self._pushes.get(None))
            return None if push is None else Upload(path, push, manifest.name, serial=serial)
        url, store = manifest.url, storage.store_of(manifest.url)
        given = self._options.get(store)
        if (manifest.withheld and given is None) or storage.missing(url):
            return None
        whole = unite(manifest.options, given or {})
        upload = Upload(
            path, _refused, manifest.name, serial=serial, store=store, retryable=storage.retryable
        )
        self._aim(upload, storage.Push(url, whole), upload_id)
        return upload

    def _aim(self, upload: Upload, push: storage.Push, upload_id: str) -> None:
        push.give_way = partial(self._uploader.gives_way, upload)
        upload.push = partial(self._push_in_turn, push, upload, upload_id)

    def _push_in_turn(
        self, push: storage.Push, upload: Upload, upload_id: str, source: Any
    ) -> None:
        with self._turns.turn(push.url, upload_id):
            push(source, upload.guard)

    def _remember(self, store: str, options: dict[str, Any]) -> dict[str, Any]:
        """Keep the options of a store; the spool's entries may have waited for them."""
        with self._lock:
            news = options and self._options.get(store) != options
            if news and len(self._options) < MOST_NAMES:
                self._options[store] = options
        if news and self._spool is not None:
            self._spool.look_for_more()
        return options

    def _refuse(self, upload: Upload, error: BaseException) -> Upload:
        upload.finish(error)
        self._voice.warning(f"upload of {upload.name} failed for good: {error}")
        return upload


def _manifest(
    path: Path,
    name: str,
    *,
    url: str | None = None,
    options: dict[str, Any] | None = None,
    withheld: bool = False,
) -> Manifest:
    return Manifest(
        name=name,
        base=path.absolute().name,
        folder=False,
        files=(),
        at_s=time.time(),
        url=url,
        options=options or {},
        withheld=withheld,
    )


def _exists(source: Any) -> bool:
    """Tell whether ``source`` is a path of this machine; a bare text is one if it is there."""
    if is_local(source):
        return True
    return isinstance(source, str) and "://" not in source and Path(source).exists()


def _refused(_source: Any) -> None:
    raise LinkholdError("this upload was never begun")
