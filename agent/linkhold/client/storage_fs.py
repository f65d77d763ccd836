"""A file system of fsspec as an upload uses it: nothing is waited for without an end."""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from linkhold.client.upload_handle import GiveWay
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable

STALL_S = 300.0
"""A transfer without progress for so long is given up, and tried again."""
LOOK_S = 0.5
COMPLETE = ".linkhold-complete.json"
"""Written last into an uploaded folder: what belongs to it."""


class Remote:
    """One file system; every method raises what the storage raises.

    ``give_way`` is asked while it waits: once it says so the call is ended with :class:`GiveWay`.
    File systems that are not asynchronous inside (NFS, SFTP) cannot be interrupted.
    """

    def __init__(self, fs: Any, give_way: Callable[[], bool]) -> None:
        self.fs = fs
        self._give_way = give_way

    def run(
        self, name: str, *args: Any, still_s: Callable[[], float] | None = None, **more: Any
    ) -> Any:
        """Call a method of fsspec; ``still_s`` tells since when it makes no progress."""
        fs = self.fs
        if not getattr(fs, "async_impl", False):
            return getattr(fs, name)(*args, **more)
        import asyncio  # noqa: PLC0415 - fsspec has it loaded
        from concurrent.futures import wait  # noqa: PLC0415 - the same

        began_s = time.monotonic()
        quiet_s = still_s or (lambda: time.monotonic() - began_s)
        future = asyncio.run_coroutine_threadsafe(getattr(fs, f"_{name}")(*args, **more), fs.loop)
        while not wait([future], timeout=LOOK_S).done:
            if quiet_s() > STALL_S:
                future.cancel()
                raise TimeoutError(f"{name}: no progress for {STALL_S:g} s")
            if self._give_way():
                future.cancel()
                raise GiveWay("a newer upload goes first")
        return future.result()

    def put(self, local: str, remote: str, **parts: Any) -> None:
        """Bring one file there."""
        progress = _progress()
        self.run("put_file", local, remote, callback=progress, still_s=progress.still_s, **parts)

    def remove(self, remote: str) -> None:
        """Remove a file or folder if it is there."""
        self.fs.invalidate_cache()
        if self.run("exists", remote):
            self.run("rm", remote, recursive=True)

    def rename(self, remote: str) -> None:
        """Give the draft of ``remote`` its name; a folder there goes aside first: no swaps here."""
        old = f"{draft(remote)}-old"
        if self.run("isdir", remote):
            self.remove(old)
            self.fs.mv(remote, old, recursive=True)
        self.fs.mv(draft(remote), remote, recursive=True)
        self.remove(old)

    def check_file(self, remote: str) -> None:
        """Refuse to put a file in the place of a folder; raises :class:`LinkholdError`."""
        if self.run("isdir", remote):
            raise LinkholdError(f"{remote} is a folder: end the address with / to upload into it")

    def check_folder(self, remote: str) -> None:
        """Refuse to replace a folder that no upload made: it may hold more than a checkpoint.

        Raises :class:`LinkholdError`.
        """
        self.fs.invalidate_cache()
        if not self.run("exists", remote) or self.run("exists", f"{remote}/{COMPLETE}"):
            return
        if not self.run("isdir", remote) or self.run("ls", remote, detail=False):
            raise LinkholdError(f"{remote} is there and no upload made it: name a new folder")

    def unmark(self, remote: str, marks: tuple[str, ...]) -> None:
        """Remove what says that a folder is whole."""
        for mark in marks:
            if self.run("exists", f"{remote}/{mark}"):
                self.run("rm_file", f"{remote}/{mark}")

    def mark(self, remote: str, files: dict[str, int]) -> None:
        """Say that a folder is whole, with its files and their sizes."""
        import json  # noqa: PLC0415 - folders only

        content = json.dumps({"schema": 1, "files": files}, indent=1, sort_keys=True).encode()
        self.run("pipe_file", f"{remote}/{COMPLETE}", content)


def draft(remote: str) -> str:
    """Return the name under which ``remote`` is made; always the same, so that none pile up."""
    path = PurePosixPath(remote)
    return str(path.with_name(f".{path.name}.linkhold-part"))


def _progress() -> Any:
    """Return a callback of fsspec that knows when it was last called."""
    from fsspec.callbacks import Callback  # noqa: PLC0415 - loaded with the file system

    class Progress(Callback):  # type: ignore[misc]  # fsspec comes without types
        moved_s = time.monotonic()

        def relative_update(self, inc: int = 1) -> None:
            self.moved_s = time.monotonic()
            super().relative_update(inc)

        def still_s(self) -> float:
            return time.monotonic() - self.moved_s

    return Progress()
