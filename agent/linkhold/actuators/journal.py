"""The journal of a change of the network: what is done, how to undo it, who is at it.

One change at a time. The folder holds ``journal.json``, the change that is neither committed nor
undone (or has just been, and says so); ``lock``, which whoever works on it holds (the kernel
drops it when that process dies); ``committed-<bond>.json`` for each bond that was made; and
``last.json``, how the last change ended. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators.perform import write_file
from linkhold.kept import read_kept
from linkhold.model import HostError
from linkhold.paths import claim_dir, state_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Document = dict[str, Any]

APPLYING, WAITING, CONFIRMED = "applying", "waiting", "confirmed"
COMMITTED, UNDOING, FAILED = "committed", "undoing", "failed"
NOT_BEGUN = -1
"""The phase of a change of which nothing was done yet."""
PRIVATE = 0o600
TRIAL = "test"
"""The action of a change that is made for a moment: it does not count as a change afterwards."""
Needs = Mapping[str, type | tuple[type, ...]]
RECORD: Needs = {"members": list, "options": dict, "persist": str}
CHANGE: Needs = {
    **dict.fromkeys(("id", "bond", "action", "state", "boot_id"), str),
    **dict.fromkeys(("phase", "deadline_mono_ns", "pid", "started"), int),
    **dict.fromkeys(("phases", "undo"), list),
    **dict.fromkeys(("checks", "record"), dict),
    **dict.fromkeys(("confirm_after_s", "guard_s"), (int, float)),
}
FINAL: Needs = {**dict.fromkeys(("id", "bond", "action"), str), "record": dict}
LAST: Needs = {**dict.fromkeys(("id", "bond", "action", "ended"), str), "at": (int, float)}
"""What each file has, of which type, and its readers count on: a record of a bond, a change that
is unfinished, one that is committed, and how the last one ended."""
DAMAGED = {
    "journal.json": "where its guard lives, that one writes it anew within seconds; else look at "
    "the network with `ip address` and `ip route`, mend it by hand and remove the file",
    "last.json": "it tells of the past only: remove it",
}
DAMAGED_RECORD = "remove it, and take the bond away by hand or apply again"
"""What to do about a file that cannot be used."""
LOOKS, LOOKS_S = 5, 1.0
"""A guard holds the journal for a moment each time that it looks."""
BEFORE = frozenset(
    {"live", "originals", "files", "persist", "profile", "connection", "volatile", "before"}
)


def folder() -> Path:
    """Return where the journal is kept: ``bond`` in the agent's state folder."""
    return state_dir() / "bond"


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class Journal:
    """The journal in one folder, held or not."""

    def __init__(self, where: Path | None = None) -> None:
        self.where = where or folder()
        self._fd = -1
        self._known: tuple[tuple[int, ...], Document | None] | None = None

    # Who works on it.

    def hold(self, *, wait_s: float = 0.0) -> bool:
        """Become the one who works on it; False when another process is and stays so."""
        fd = self._lock()
        end = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    os.close(fd)
                    return False
                time.sleep(0.05)
            else:
                self._fd = fd
                with contextlib.suppress(OSError):  # a full disk does not make the lock worse
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
                self._complete_commit()
                return True

    def _lock(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            claim_dir(self.where)  # what is written here, root carries out
            return os.open(self.where / "lock", flags, PRIVATE)
        except OSError as error:
            known = f"{error.filename or self.where}: {error.strerror}"
            raise HostError(
                f"{known if error.strerror else error}; without a journal there it "
                "could not be undone, so nothing is changed"
            ) from error

    def release(self) -> None:
        """Let others work on it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @contextlib.contextmanager
    def held(self, *, wait_s: float = LOOKS_S) -> Iterator[None]:
        """Hold it for a while; raises :class:`HostError` when another process works on it."""
        if not self.hold(wait_s=wait_s):
            raise HostError(
                f"another change of the network is at work (process {self._holder()}); wait until "
                "it has ended, then try again"
            )
        try:
            yield
        finally:
            self.release()

    def is_left(self, found: Document) -> bool:
        """Tell whether nobody is at work on an unfinished change any more, nor waits to be.

        Its boot is over, or whoever made it died and no guard has taken it over. May take half a
        second, for which a guard has the time to come.
        """
        if found.get("boot_id") != boot_id():
            return True
        if found.get("state") in {WAITING, FAILED}:
            return False
        for _ in range(LOOKS):
            if not self._is_free() or self.read() != found:
                return False
            time.sleep(LOOKS_S / 2 / LOOKS)
        return True

    def _is_free(self) -> bool:
        try:
            fd = os.open(self.where / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def _holder(self) -> str:
        try:
            return (self.where / "lock").read_text(encoding="ascii").strip() or "unknown"
        except (OSError, UnicodeDecodeError):
            return "unknown"

    # What it says.

    def read(self) -> Document | None:
        """Return the unfinished change, or None.

        Raises :class:`HostError` when the file is damaged: then nobody knows what to undo.
        """
        mark = self._mark()
        if self._known is None or self._known[0] != mark or not mark:
            self._known = (mark, self._change())
        found = self._known[1]
        return None if found is not None and found.get("state") == COMMITTED else found

    def _change(self) -> Document | None:
        found = self._load("journal.json")
        if found is not None:
            self._refuse_lacking(
                "journal.json", found, FINAL if found.get("state") == COMMITTED else CHANGE
            )
        return found

    def _mark(self) -> tuple[int, ...]:
        """Return what tells one version of the file from another: each is a file of its own."""
        try:
            found = (self.where / "journal.json").stat()
        except OSError:
            return ()
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def write(self, document: Document) -> None:
        """Replace the journal; on disk when this returns."""
        text = json.dumps(document, separators=(",", ":"))
        write_file(self.where / "journal.json", text, PRIVATE)

    def committed(self, damaged: list[str] | None = None) -> dict[str, Document]:
        """Return the records of the bonds that were made here, by name.

        Raises :class:`HostError` for a file that cannot be read; with ``damaged`` it is told
        there instead, and the others count.
        """
        found = {}
        for path in sorted(self.where.glob("committed-*.json")):
            record = self._or_tell(partial(self._record, path.name), damaged)
            if record is not None:
                found[path.stem.removeprefix("committed-")] = record
        newest = self._or_tell(self._change, damaged)
        if newest is not None and newest.get("state") == COMMITTED:
            found.pop(newest["bond"], None)
            if newest["action"] != "remove":
                found[newest["bond"]] = newest["record"]
        return found

    def commit(self, document: Document) -> None:
        """Make the change final: its record is kept (or, of a removal, dropped).

        It is final from the moment the journal says so; whoever dies on the way from there to
        the record leaves it to the next one who holds the journal.
        """
        files = [step for step in document["undo"] if step.get("restores")]
        record = {**document["record"], "files": files, "at": time.time()}
        if document["action"] == "adjust":  # what was before linkhold came stays what it was
            old = self._load(f"committed-{document['bond']}.json") or {}
            record |= {k: v for k, v in old.items() if k in BEFORE}
            # A member that joins later was never seen before.
            fresh, known = document["record"].get("originals", {}), old.get("originals", {})
            record["originals"] = {**fresh, **known}
        self.write({**document, "state": COMMITTED, "record": record})
        self._complete_commit()

    def _complete_commit(self) -> None:
        """Write the record of a change that is committed, and close the journal."""
        with contextlib.suppress(HostError):  # damaged, no space: it is looked at again
            found = self._change()
            if found is not None and found.get("state") == COMMITTED:
                text = None if found["action"] == "remove" else json.dumps(found["record"])
                write_file(self.where / f"committed-{found['bond']}.json", text, PRIVATE)
                self.finish(found, "committed", [])

    def forget(self, bond: str) -> None:
        """Drop the record of a bond that is gone and shall not come back; it counts as removed."""
        write_file(self.where / f"committed-{bond}.json", None, PRIVATE)
        done = {"id": secrets.token_hex(6), "bond": bond, "action": "remove", "ended": COMMITTED}
        self._note({**done, "reason": "", "problems": [], "at": time.time()})

    def finish(self, document: Document, how: str, problems: list[str]) -> None:
        """Note how a change ended and close the journal; a failed undo stays open.

        Of a trial nothing is noted: the last change is still the one before it.
        """
        last = {
            "id": document["id"],
            "bond": document["bond"],
            "action": document["action"],
            "ended": how,
            "reason": document.get("reason", ""),
            "problems": problems,
            "at": time.time(),
        }
        if document["action"] != TRIAL:
            self._note(last)
        if how == FAILED:
            self.write({**document, "state": FAILED, "problems": problems})
        else:
            write_file(self.where / "journal.json", None, PRIVATE)

    def _note(self, last: Document) -> None:
        with contextlib.suppress(HostError):  # a full disk must not keep the journal open
            write_file(self.where / "last.json", json.dumps(last), PRIVATE)

    def last(self) -> Document | None:
        """Return how the last change ended, or None. Raises :class:`HostError` when damaged."""
        found = self._load("last.json")
        if found is not None:
            self._refuse_lacking("last.json", found, LAST)
        return found

    def _record(self, name: str) -> Document | None:
        found = self._load(name)
        if found is not None:
            self._refuse_lacking(name, found, RECORD)
        return found

    def _or_tell(
        self, load: Callable[[], Document | None], damaged: list[str] | None
    ) -> Document | None:
        try:
            return load()
        except HostError as error:
            if damaged is None:
                raise
            damaged.append(str(error))
            return None

    def _refuse_lacking(self, name: str, found: Document, needs: Needs) -> None:
        """Raise :class:`HostError` where something is missing or of another type."""
        lacking = [key for key, type_ in needs.items() if not isinstance(found.get(key), type_)]
        if lacking:
            raise HostError(
                f"{self.where / name} is damaged: it lacks {', '.join(lacking)}; "
                f"{DAMAGED.get(name, DAMAGED_RECORD)}"
            )

    def _load(self, name: str) -> Document | None:
        path = self.where / name
        try:
            document = json.loads(read_kept(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise HostError(
                f"{path} is damaged ({error}); {DAMAGED.get(name, DAMAGED_RECORD)}"
            ) from error
        if not isinstance(document, dict):
            raise HostError(
                f"{path} is damaged (no JSON object); {DAMAGED.get(name, DAMAGED_RECORD)}"
            )
        return document
