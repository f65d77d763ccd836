"""A change of the network as a transaction: guard, journal, phases, checks, commit or undo."""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators import guard
from linkhold.actuators.checks import failures
from linkhold.actuators.journal import APPLYING, CONFIRMED, FAILED, NOT_BEGUN, WAITING, boot_id
from linkhold.actuators.perform import perform
from linkhold.actuators.undo import undo
from linkhold.actuators.unfinished import ROLL_BACK, in_words
from linkhold.model import HostError, LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.actuators.journal import Document, Journal

CHECK_EVERY_S = 1.0
SETTLE_S = 8.0
"""A fresh path may need as long until everything answers (a switch that learns, LACP, STP)."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a change is confirmed: by itself after good checks, or (``manual``) by a person."""

    manual: bool = False


class Transaction:
    """Carries out one compiled plan. ``tell`` gets a line of text for each thing that happens."""

    def __init__(self, journal: Journal, plan: Document, tell: Callable[[str], None]) -> None:
        self._journal = journal
        self._tell = tell
        self._document: dict[str, Any] = {
            **plan,
            "id": secrets.token_hex(6),
            "boot_id": boot_id(),
            "pid": os.getpid(),
            "started": guard.started_at(os.getpid()),
            "state": APPLYING,
            "phase": NOT_BEGUN,
        }

    def run(self, options: Options) -> str:
        """Make the change; return ``committed`` or ``waiting`` (for ``bond confirm``).

        Raises :class:`HostError` when it failed, after everything was undone; the text says
        what failed, and whether the host is as before.
        """
        with self._journal.held():
            self._begin()
            try:
                return self._work(options)
            except BaseException as error:
                self._turn_back(error)
                raise

    def borrow(self, during: Callable[[], None]) -> list[str]:
        """Make the change, run ``during``, and undo the change, whatever happens; for a test.

        Returns what of the undo failed.
        """
        with self._journal.held():
            self._begin()
            try:
                self._run_phases(confirmed=False)
                during()
            finally:
                problems = undo(self._journal, "the test is over")
            return problems

    def _begin(self) -> None:
        """Write the journal and arm the guard. Raises :class:`HostError`: nothing is changed."""
        self._refuse_unfinished()
        self._document["undo"] = [filled(step) for step in self._document["undo"]]
        self._extend_deadline()
        self._save()
        try:
            guard.arm(self._journal, self._document["id"])
        except BaseException as error:
            self._journal.finish(self._document, "not begun", [str(error)])
            raise

    def _refuse_unfinished(self) -> None:
        found = self._journal.read()
        if found is not None and found["phase"] != NOT_BEGUN:
            # Held here, so that nobody else is at work on it.
            left = found["boot_id"] != boot_id() or found["state"] not in {WAITING, FAILED}
            raise HostError(in_words(found, left=left))

    def _work(self, options: Options) -> str:
        self._run_phases(confirmed=False)
        self._settle(whole=True)
        if options.manual:
            self._document |= {"state": WAITING}
            self._extend_deadline()
            self._save()
            return WAITING
        self._watch()
        return self.complete()

    def complete(self) -> str:
        """Carry out what waits for confirmation, check once more and commit."""
        self._document |= {"state": CONFIRMED}
        self._extend_deadline()
        if any(phase["confirmed"] for phase in self._document["phases"]):
            self._run_phases(confirmed=True)
            self._settle()
        self._journal.commit(self._document)
        return "committed"

    def _run_phases(self, *, confirmed: bool) -> None:
        for number, phase in enumerate(self._document["phases"]):
            if phase["confirmed"] != confirmed:
                continue
            self._document["phase"] = max(number, self._document["phase"])
            self._save()
            self._tell(phase["title"])
            for step in phase["steps"]:
                perform(step)

    def _settle(self, *, whole: bool = False) -> None:
        """Wait until all checks hold; raises :class:`HostError` with those that do not."""
        end = time.monotonic() + SETTLE_S
        while bad := failures(self._document["checks"], whole=whole):
            if time.monotonic() > end:
                raise HostError("; ".join(bad))
            time.sleep(0.1)

    def _watch(self) -> None:
        """See that all checks hold for ``confirm_after_s``; one failure is looked at again."""
        hold_s = self._document["confirm_after_s"]
        self._tell(f"all checks hold; watching for {hold_s:g} s before it is made permanent")
        end = time.monotonic() + hold_s
        while (left_s := end - time.monotonic()) > 0:
            time.sleep(min(CHECK_EVERY_S, left_s))
            # One failure is looked at again: a lost answer is no broken path.
            if self._failures() and (bad := self._failures()):
                raise HostError("; ".join(bad))

    def _failures(self) -> list[str]:
        return failures(self._document["checks"], whole=False)

    def _turn_back(self, error: BaseException) -> None:
        if self._journal.read() is None:  # interrupted when it was committed already
            return
        interrupted = isinstance(error, KeyboardInterrupt)
        why = "interrupted" if interrupted else str(error) or type(error).__name__
        self._tell(f"undoing: {why}")
        problems = undo(self._journal, why)
        if isinstance(error, LinkholdError):
            raise HostError(outcome_text(why, problems)) from error
        self._tell(outcome_text(why, problems))

    def _extend_deadline(self) -> None:
        left_ns = int(self._document["guard_s"] * 1e9)
        self._document["deadline_mono_ns"] = time.monotonic_ns() + left_ns

    def _save(self) -> None:
        self._journal.write(self._document)

    @classmethod
    def resumed(cls, journal: Journal, tell: Callable[[str], None]) -> Transaction:
        """Return the transaction that waits for confirmation; the caller holds the journal.

        Raises :class:`HostError` when none waits.
        """
        found = journal.read()
        if found is None:
            raise HostError("nothing waits to be confirmed: no change is unfinished")
        if found["boot_id"] != boot_id():
            raise HostError(
                "nothing waits to be confirmed: the machine was booted since; end the change "
                f"with: {ROLL_BACK}"
            )
        if found["state"] != WAITING:
            # The caller holds the journal, so that nobody is at work on it.
            raise HostError(
                f"nothing waits to be confirmed: the change of {found['bond']} is "
                f"{found['state']}, and nobody is at work on it; end it with: {ROLL_BACK}"
            )
        made = cls(journal, found, tell)
        made._document |= {"id": found["id"], "phase": found["phase"]}
        return made

    def confirm(self) -> str:
        """Check once more, then complete; raises :class:`HostError` and undoes if that fails."""
        try:
            self._extend_deadline()
            self._save()  # whoever hangs from here on is the one for the guard to end
            self._settle()
            return self.complete()
        except BaseException as error:
            self._turn_back(error)
            raise


def outcome_text(why: str, problems: list[str]) -> str:
    """Return what to tell about a change that failed."""
    if not problems:
        return f"{why}. Everything was undone: the host is as before"
    left = "; ".join(problems)
    return f"{why}. Undoing it failed as well: {left}. Try again with: linkhold bond rollback"


def roll_back(journal: Journal, reason: str) -> list[str]:
    """Undo the unfinished change; return what failed. Raises :class:`HostError` without one."""
    found = journal.read()
    if found is None:
        raise HostError("no change is unfinished: nothing to roll back")
    return undo(journal, reason)


def filled(step: Document) -> Document:
    """Return an undo step with what only the host knows: a file's content before the change."""
    if step["do"] != "restore":
        return step
    path = Path(step["path"])
    try:
        return {
            **step,
            "do": "file",
            "restores": True,
            "content": path.read_text(encoding="utf-8"),
            "mode": path.stat().st_mode & 0o7777,
        }
    except FileNotFoundError:
        return {**step, "do": "file", "restores": True, "content": None, "mode": 0o644}
    except (OSError, UnicodeDecodeError) as error:
        raise HostError(f"{path} cannot be read, so it could not be restored: {error}") from error


__all__ = ["Options", "Transaction", "outcome_text", "roll_back"]
