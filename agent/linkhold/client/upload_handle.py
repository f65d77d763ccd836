"""One upload: what the training code holds in its hand, and how ``push`` is called once."""

from __future__ import annotations

import inspect
import itertools
import os
import threading
from typing import TYPE_CHECKING, Any

from linkhold.client.retry.families import family
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from linkhold.client.local_files import Look
    from linkhold.client.retry.breaker import Breaker, Permit

    Breakers: TypeAlias = "Callable[[str], Breaker | None]"

LONGEST_ASKED_S = 600.0
"""A store that asks for a longer pause (Retry-After) is asked again after this."""

_serials = itertools.count(1)


def anything_but_ours(error: BaseException) -> bool:
    """Tell whether a push of the user's is tried again: after everything it may raise by itself."""
    return isinstance(error, Exception) and not isinstance(error, LinkholdError)


class UploadsOnHold(LinkholdError):
    """Uploads are on hold, and :meth:`Hold.uploading` was not to wait, or not any longer."""


class Elsewhere(LinkholdError):
    """Another process has this very upload under way: no attempt was made, and none counts."""


class GiveWay(LinkholdError):
    """Only the newest may go, and this is no longer it: the upload was interrupted, not failed."""


def no_breaker(_store: str) -> None:
    """Know nothing of any store."""


class Upload:
    """One upload, as the training code sees it; safe to read from any thread."""

    def __init__(
        self,
        source: Any,
        push: Callable[[Any], object],
        name: str | None,
        *,
        serial: int | None = None,
        store: str = "",
        retryable: Callable[[BaseException], bool] = anything_but_ours,
    ) -> None:
        self.source = source
        self.push = push
        self.name = name or str(source)
        self.serial = next(_serials) if serial is None else serial
        """Grows with each upload; below zero for what an earlier process left in the spool."""
        self.store = store
        """What it depends on, such as ``s3://bucket``; empty when only the push knows."""
        self.retryable = retryable
        self.kept = False
        """Whether it ended undone and stays in the spool for the next process."""
        self.kept_back = False
        """Whether it has waited because it could not have worked."""
        self.attempts = 0
        """How often ``push`` was called."""
        self.error: BaseException | None = None
        """Why it failed for good; None while it goes on and after success."""
        self.guard: Look | None = None
        """How the source must still look; None for a copy in the spool, and where nobody cares."""
        self.permit: Permit | None = None
        """Leave of the store's breaker for the next attempt."""
        self.at_end: Callable[[BaseException | None], object] | None = None
        self._finished = threading.Event()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not (see :attr:`error`)."""
        return self._finished.is_set()

    @property
    def order(self) -> tuple[bool, int]:
        """Sort key: uploads of this process in order, then the spool's, the newest first."""
        return self.serial < 0, abs(self.serial)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end, at most ``timeout_s`` seconds; return whether it has ended."""
        return self._finished.wait(timeout_s)

    def finish(self, error: BaseException | None = None) -> None:
        """Record the end (for the worker)."""
        self.error = error
        at_end, self.at_end = self.at_end, None
        if at_end is not None:
            at_end(error)
        self._finished.set()

    def orphan(self) -> None:
        """End the copy in a forked child, where an old lock may be held for ever."""
        self._finished, self.at_end = threading.Event(), None
        self.finish(LinkholdError("this upload belongs to the parent process"))


def asked_s(error: BaseException) -> float:
    """Return the seconds that the other side asked to wait for (Retry-After), 0 for none."""
    known = family(error)
    return min(LONGEST_ASKED_S, (known and known.retry_after_s) or 0.0)


def push_once(upload: Upload) -> None:
    """Call ``push`` one time; raises what it raises.

    Raises :class:`LinkholdError` for a file that is gone, and for a ``push`` that only promises.
    """
    if is_gone(upload.source):
        raise LinkholdError(f"{upload.source} is gone: it was removed before it was uploaded")
    upload.attempts += 1
    promised = upload.push(upload.source)
    if inspect.isawaitable(promised):
        getattr(promised, "close", int)()  # or Python would warn that nobody awaited it
        raise LinkholdError(
            f"nothing was uploaded: push returned {type(promised).__name__} instead of uploading; "
            "write lambda path: asyncio.run(push(path))"
        )


def words(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, LinkholdError):
        return str(error)
    return " ".join(f"{type(error).__name__}: {error}".split())


def is_gone(source: Any) -> bool:
    """Tell whether ``source`` names a local file that is not there; unsure means no."""
    return is_local(source) and not os.path.lexists(str(source))


def is_local(source: Any) -> bool:
    """Tell whether ``source`` clearly names a path of this machine."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    path = str(source)
    return path.startswith("/") or (isinstance(source, os.PathLike) and ":/" not in path)
