"""What stands between Lightning and its checkpoints: measures, uploads, and never blocks on a link.

Lightning calls a CheckpointIO on rank 0 alone (``Strategy.save_checkpoint``), inside a save that
ends with a barrier: what is decided here concerns no other rank.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.client import storage
from linkhold.client.adapter import imported
from linkhold.client.upload_handle import UploadsOnHold
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from linkhold.client.hold import Hold
    from linkhold.client.upload_handle import Upload

pl: Any = imported(
    ("lightning.pytorch", "pytorch_lightning"), "lightning", "linkhold.client.lightning"
)
_wrapper: Any = imported((f"{pl.__name__}.plugins.io.wrapper",), "lightning", "lightning_io")


class GatedCheckpointIO(_wrapper._WrappingCheckpointIO):  # type: ignore[misc] # noqa: SLF001 - as Lightning's own AsyncCheckpointIO
    """Wraps the CheckpointIO of a Trainer.

    ``local`` is where a checkpoint is written whose own place is remote, or is not to be reached
    now. Raises :class:`ValueError` for AsyncCheckpointIO together with uploads.
    """

    def __init__(
        self,
        inner: Any,
        hold: Hold,
        upload_to: str | os.PathLike[str] | None,
        storage_options: dict[str, Any] | None,
        local: Path | None,
    ) -> None:
        super().__init__(inner)
        asynchronous = isinstance(inner, pl.plugins.io.AsyncCheckpointIO)
        if asynchronous and (upload_to is not None or local is not None):
            raise ValueError(
                "HoldCallback: with AsyncCheckpointIO nobody knows when a file is there to be "
                "uploaded; leave it out, uploads run beside training anyway"
            )
        self.closed = False
        """Whether nothing more is to be saved or removed: the run was stopped."""
        self._hold = hold
        self._upload_to = upload_to
        self._options = storage_options
        self._local = local
        self._measured = asynchronous
        self._staged: list[tuple[Upload, str]] = []

    @contextlib.contextmanager
    def measured_elsewhere(self) -> Iterator[None]:
        """Leave the measuring of saves in this block to the caller."""
        before, self._measured = self._measured, True
        try:
            yield
        finally:
            self._measured = before

    def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
        """Save, here or at first on the local disk, and have it uploaded."""
        if self.closed:
            return
        self._sweep()
        target = str(path)
        staged = self._stage(target)
        with contextlib.nullcontext() if self._measured else self._hold.saving():
            if staged is None:
                self._inner.save_checkpoint(checkpoint, path, storage_options=storage_options)
            else:
                self._inner.save_checkpoint(checkpoint, staged)
        if staged is not None:
            self._staged.append((self._send(target, staged), staged))
        elif self._upload_to is not None:
            self._send(storage.full_address(self._upload_to, target), target)

    def load_checkpoint(self, path: Any, *arguments: Any, **more: Any) -> Any:
        """Load, from the local disk what has not yet come to its place."""
        for upload, staged in reversed(self._staged):
            if staged == self._staging_name(str(path)) and not upload.done:
                return self._inner.load_checkpoint(staged, *arguments, **more)
        return self._inner.load_checkpoint(path, *arguments, **more)

    def remove_checkpoint(self, path: Any) -> None:
        """Remove a checkpoint, and what was uploaded of it; over the network beside training."""
        if self.closed:
            return
        target = str(path)
        if self._is_remote(target):
            self._remove_there(target)
            return
        self._inner.remove_checkpoint(path)
        if self._upload_to is not None:
            self._remove_there(storage.full_address(self._upload_to, target))

    def teardown(self) -> None:
        """End what the wrapped one began; Lightning's own wrapper does not."""
        self._inner.teardown()

    @property
    def _inner(self) -> Any:
        return self.checkpoint_io

    def _is_remote(self, target: str) -> bool:
        return self._local is not None and "://" in target and not target.startswith("file://")

    def _stage(self, target: str) -> str | None:
        """Return where to write instead of ``target``, None to write there."""
        if self._local is None or not (self._is_remote(target) or not self._reachable()):
            return None
        return self._staging_name(target)

    def _staging_name(self, target: str) -> str:
        return str((self._local or Path()) / target.rstrip("/").rpartition("/")[2])

    def _reachable(self) -> bool:
        try:
            with self._hold.uploading(wait=False):
                return True
        except UploadsOnHold:
            return False

    def _send(self, address: str, path: str) -> Upload:
        return self._hold.upload_to(address, path, storage_options=self._options)

    def _remove_there(self, address: str) -> None:
        options = dict(self._options or {})
        shown = storage.shown(address)
        self._hold.upload(address, lambda url: _remove(url, options), name=f"removal of {shown}")

    def _sweep(self) -> None:
        """Remove local copies of what has come to its place."""
        left = []
        for upload, staged in self._staged:
            if upload.done and upload.error is None:
                self._inner.remove_checkpoint(staged)
            else:
                left.append((upload, staged))
        self._staged = left


def remove_stale(folder: Path, keep: int, io: GatedCheckpointIO) -> None:
    """Remove all but the ``keep`` newest of the checkpoints that linkhold forced."""
    found = {}
    for path in folder.glob("linkhold-step=*.ckpt"):
        name = re.fullmatch(r"linkhold-step=(\d+)\.ckpt", path.name)
        if name is not None:
            found[int(name[1])] = path
    for step in sorted(found)[:-keep]:
        io.remove_checkpoint(str(found[step]))


def _remove(url: str, options: dict[str, Any]) -> None:
    """Remove a file or folder of a storage, if it is there; raises what the storage raises."""
    why = storage.missing(url)
    if why:
        raise LinkholdError(why)
    from fsspec.core import url_to_fs  # noqa: PLC0415 - checked by missing()

    fs, path = url_to_fs(url, **storage.calm(url.partition("://")[0], options))
    if fs.exists(path):
        fs.rm(path, recursive=True)
