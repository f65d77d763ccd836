"""Nobody overwrites a newer upload with an older one to the same address.

Within a process the newest of each address is remembered, between processes by a small file that
is locked while an upload is under way and says which one was the last to arrive.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from linkhold.client.spool.claim import Claim
from linkhold.client.spool.entry import ID, at_ns
from linkhold.client.upload_handle import Elsewhere
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_REMEMBERED = 1024
MOST_FILES = 4096
FUTURE_NS = 1_000_000_000


class Superseded(LinkholdError):
    """A newer upload to the same address makes this one pointless."""


class Turns:
    """The order of uploads to each address; ``folder`` is shared between processes, or None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._newest: OrderedDict[str, str] = OrderedDict()

    def expect(self, url: str, upload_id: str) -> None:
        """Remember an upload that was asked for."""
        self._newest[url] = max(upload_id, self._newest.pop(url, ""))
        while len(self._newest) > MOST_REMEMBERED:
            self._newest.popitem(last=False)

    @contextlib.contextmanager
    def turn(self, url: str, upload_id: str) -> Iterator[None]:
        """Surround one attempt, which counts as the last to arrive unless it raises.

        Raises :class:`Superseded`, or :class:`Elsewhere` while another process is at it.
        """
        if self._newest.get(url, "") > upload_id:
            raise Superseded(f"superseded: a newer upload goes to {url}")
        claim = self._claim(url)
        try:
            if claim is not None and _last(claim) > upload_id:
                raise Superseded(f"superseded: a newer upload has gone to {url}")
            yield
            if claim is not None:
                with contextlib.suppress(OSError):
                    claim.write(upload_id.encode("ascii"))
        finally:
            if claim is not None:
                claim.release()

    def prune(self) -> None:
        """Forget the addresses that were used longest ago; raises :class:`OSError`."""
        if self._folder is None or not self._folder.is_dir():
            return
        files = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-MOST_FILES]:
            claim = Claim.take(path)
            if claim is not None:
                claim.release(unlink=True)

    def _claim(self, url: str) -> Claim | None:
        """Hold the address; None where there are no files for that."""
        if self._folder is None:
            return None
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:32]
            claim = Claim.take(self._folder / name)
        except OSError:
            return None
        if claim is None:
            raise Elsewhere(f"another process has an upload to {url} under way")
        return claim


def _last(claim: Claim) -> str:
    """Return the id of the last one that arrived, empty when that is not known."""
    try:
        found = claim.read().decode("ascii", "replace")
    except OSError:
        return ""
    # An id of the future was made before the clock was set back: it says nothing about order.
    known = ID.fullmatch(found) and at_ns(found) <= time.time_ns() + FUTURE_NS
    return found if known else ""
