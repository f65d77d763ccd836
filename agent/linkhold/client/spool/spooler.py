"""The spool of one Hold: copies what is to be uploaded, and finds what earlier processes left.

A thread of its own does the copying, so that a checkpoint is safe while another one is still under
way; it lives as long as there is something to copy. Whatever goes wrong with the spool costs its
protection, never the upload.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.client import local_files
from linkhold.client.spool.entry import Entry, read_manifest
from linkhold.client.spool.folder import Folder, NoRoom
from linkhold.client.spool.manifest import Damaged, Manifest
from linkhold.client.spool.turns import Superseded
from linkhold.client.upload_handle import words
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.local_files import Look
    from linkhold.client.spool.policy import Limits
    from linkhold.client.upload import Uploader
    from linkhold.client.upload_handle import Upload
    from linkhold.client.voice import Voice

MOST_JOBS = 16
"""More than this many copies waiting means a disk that is stuck: the spool is passed over."""
SLICE_S = 0.5


@dataclass(frozen=True, slots=True)
class Spooled:
    """One upload that waits in the spool; ``path`` is its file or folder there.

    ``url`` is None for one that needs a push (:meth:`Hold.resume_uploads`).
    """

    id: str
    name: str
    path: Path
    size_bytes: int
    at_s: float
    url: str | None


@dataclass(frozen=True, slots=True)
class _Job:
    """A source to be copied; ``linked`` is its second name, where it got one."""

    id: str
    upload: Upload
    found: Look
    manifest: Manifest
    linked: Path | None


class _Ended(Exception):
    """The Hold was closed during a copy."""


class Spool:
    """Uploads on disk, of this process and of those before it."""

    def __init__(
        self,
        root: Path,
        limits: Limits,
        uploader: Uploader,
        voice: Voice,
        revive: Callable[[str, Manifest, Path, int], Upload | None],
    ) -> None:
        self._folder = Folder(root, limits)
        self._uploader = uploader
        self._voice = voice
        self._revive = revive
        self._renew()

    def _renew(self) -> None:
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._sweep_due = False
        self._busy = False
        self._thread: threading.Thread | None = None
        self._mine: dict[str, tuple[Entry, Upload]] = {}
        self._tried: set[str] = set()
        self._said: set[str] = set()
        self._recovered = 0
        self._closed = False

    @property
    def root(self) -> Path:
        """The folder."""
        return self._folder.root

    def take(self, upload: Upload, upload_id: str, manifest: Manifest) -> None:
        """Copy the upload's source, then queue it. Never waits; at worst it is queued as it is."""
        source = Path(upload.source)
        try:
            found = local_files.look(source)
        except (OSError, LinkholdError):
            self._uploader.put(upload)  # where the error is told
            return
        job = _Job(upload_id, upload, found, manifest, self._link(source, found))
        with self._changed:
            taken = not self._closed and len(self._jobs) < MOST_JOBS
            if taken:
                self._jobs.append(job)
                self._ensure_thread()
        if not taken:
            self._direct(job, "it is stuck or closed")

    def look_for_more(self) -> None:
        """Take up what other processes left, in the thread."""
        with self._changed:
            if not self._closed:
                self._sweep_due = True
                self._ensure_thread()

    def listing(self) -> tuple[Spooled, ...]:
        """Return what is in the folder, the newest first; what cannot be read is left out."""
        listed = []
        with contextlib.suppress(OSError):
            for name in reversed(self._folder.ids()):
                with contextlib.suppress(OSError, Damaged):
                    manifest = read_manifest(self._folder.entries / name)
                    if manifest is not None:
                        listed.append(self._spooled(name, manifest))
        return tuple(listed)

    def settle(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds for the copies; return whether all are made."""
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while self._jobs or self._busy:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, SLICE_S))
        return True

    def close(self) -> None:
        """Start no more copies, and end the one under way. Does not wait."""
        with self._changed:
            self._closed = True
            jobs, self._jobs = self._jobs, deque()
            idle = self._thread is None
            self._changed.notify_all()
        for job in jobs:
            job.upload.finish(LinkholdError("the program ended before this upload"))
        if idle:
            self._folder.close()

    def after_fork(self) -> None:
        """Forget in the child what the parent keeps."""
        for job in self._jobs:
            job.upload.orphan()
        self._folder.after_fork()
        self._renew()

    def _ensure_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        self._thread = threading.Thread(target=self._work, name="linkhold-spool", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            self._thread = None
            jobs, self._jobs = self._jobs, deque()
            for job in jobs:
                self._direct(job, "no thread can be started")

    def _work(self) -> None:
        while True:
            with self._changed:
                self._busy = False
                job = self._jobs.popleft() if self._jobs else None
                sweep, self._sweep_due = self._sweep_due and job is None, False
                if self._closed or (job is None and not sweep):
                    self._thread = None
                    closed = self._closed
                    self._changed.notify_all()
                    break
                self._busy = job is not None
            if job is not None:
                self._store(job)
                self._sweep_due = True
            else:
                self._guarded_sweep()
        if closed:
            self._folder.close()

    def _link(self, source: Path, found: Look) -> Path | None:
        """Give the source a second name at once, so that it may be removed before it is copied."""
        try:
            linked = self._folder.place_for_links() / source.absolute().name
            linked.parent.mkdir(mode=0o700)
            local_files.link(source, linked, found)
        except OSError:
            return None
        return linked

    def _store(self, job: _Job) -> None:
        try:
            self._copy(job)
        except (local_files.Changed, _Ended) as error:
            ended = isinstance(error, _Ended)
            why = LinkholdError("the program ended before this upload") if ended else error
            self._unlink(job)
            job.upload.finish(why)
            self._voice.warning(f"upload of {job.upload.name} failed for good: {words(why)}")
        except NoRoom as error:
            self._direct(job, words(error))
        except OSError as error:
            self._direct(job, f"{error.strerror or error} ({self._folder.root})")
        except Exception as error:  # noqa: BLE001 - no fault of the spool may cost an upload
            self._direct(job, words(error))
        else:
            self._unlink(job)

    def _unlink(self, job: _Job) -> None:
        if job.linked is not None:
            local_files.remove(job.linked.parent)

    def _copy(self, job: _Job) -> None:
        loose = [
            name for name, (_, upload) in tuple(self._mine.items()) if self._uploader.waits(upload)
        ]
        entry = self._folder.admit(job.id, job.found.size_bytes, loose, self._give_up)
        try:
            source = job.linked or Path(job.upload.source)
            manifest = entry.fill(source, job.found, job.manifest, self._go_on)
        except BaseException:
            entry.remove()
            raise
        self._queue(entry, manifest, job.upload)

    def _queue(self, entry: Entry, manifest: Manifest, upload: Upload) -> None:
        _aim(upload, entry.folder / "data" / manifest.base)
        upload.guard = None
        upload.at_end = partial(self._ended, entry, upload)
        self._mine[entry.id] = (entry, upload)
        self._uploader.put(upload)

    def _go_on(self) -> None:
        if self._closed:
            raise _Ended

    def _ended(self, entry: Entry, upload: Upload, error: BaseException | None) -> None:
        """Remove an entry that was uploaded or is pointless; another one stays for a successor."""
        self._mine.pop(entry.id, None)
        if error is None or isinstance(error, Superseded):
            entry.remove()
        else:
            upload.kept = True
            if not upload.retryable(error):
                self._tried.add(entry.id)  # a refusal stays one while this process lives
            entry.release()

    def _give_up(self, name: str) -> bool:
        """Remove one of our own that waits; return whether it still did."""
        entry, upload = self._mine.get(name, (None, None))
        if entry is None or upload is None or not self._uploader.withdraw(upload):
            return False
        self._mine.pop(name, None)
        upload.at_end = None
        entry.remove()
        upload.finish(Superseded("superseded: the spool has room for newer ones only"))
        self._voice.warning(f"upload of {upload.name} given up: {upload.error}")
        return True

    def _direct(self, job: _Job, why: str) -> None:
        """Queue an upload without a copy, and say so once for each reason."""
        consequence = "it is uploaded from where it is, and lost if the process dies before"
        self._say_once(why, f"the spool does not take {job.upload.name}: {why}; {consequence}")
        if job.linked is not None:
            _aim(job.upload, job.linked)  # the source may be gone already
            job.upload.at_end = lambda _error: self._unlink(job)
        self._uploader.put(job.upload)

    def _say_once(self, key: str, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            self._voice.warning(text)

    def _guarded_sweep(self) -> None:
        try:
            self._folder.prepare()
            for lost in self._folder.sweep():
                self._voice.warning(
                    f"{lost} was not uploaded: its process ended before it was copied to the spool"
                )
            names = self._folder.ids()
            self._tried &= set(names)
            for name in reversed(names):
                if name not in self._mine and name not in self._tried and not self._closed:
                    self._take_up(name)
        except OSError as error:
            text = f"the spool cannot be read: {error.strerror or error} ({self._folder.root})"
            self._say_once(text, text)

    def _take_up(self, name: str) -> None:
        entry = Entry.take(self._folder.entries, name)
        if entry is None:
            return
        try:
            if not self._wake(entry):
                entry.release()
        except Damaged as error:
            aside = entry.put_aside(self._folder.damaged)
            self._voice.warning(f"an upload of the spool is damaged: {error}; put aside in {aside}")
        except OSError:
            entry.release()
            self._tried.add(name)
            raise

    def _wake(self, entry: Entry) -> bool:
        """Queue what an earlier process left; return whether it can be uploaded now."""
        manifest = read_manifest(entry.folder)
        if manifest is None:
            return False
        path = entry.folder / "data" / manifest.base
        upload = self._revive(entry.id, manifest, path, -(self._recovered + 1))
        if upload is None:
            return False
        entry.verify(manifest)
        self._recovered += 1
        self._voice.info(f"upload of {manifest.name} goes on: it was left in the spool")
        self._queue(entry, manifest, upload)
        return True

    def _spooled(self, name: str, manifest: Manifest) -> Spooled:
        path = self._folder.entries / name / "data" / manifest.base
        size_bytes = manifest.size_bytes
        return Spooled(name, manifest.name, path, size_bytes, manifest.at_s, manifest.url)


def _aim(upload: Upload, path: Path) -> None:
    """Let an upload take another path, in the kind that it was given."""
    upload.source = str(path) if isinstance(upload.source, str) else path
