"""The way back of a change: every step that is needed, whatever became of those before it.

Standard library only.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from linkhold.actuators.journal import FAILED, UNDOING, boot_id
from linkhold.actuators.perform import Postponed, perform
from linkhold.model import HostError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.actuators.journal import Document, Journal

TRIES = 3
PAUSE_S = 1.0
UNDO_S = 45.0
"""Three tries, each of which waits for a carrier that may not come."""


def undo(journal: Journal, reason: str, known: Document | None = None) -> list[str]:
    """Bring the host back to what it was before the journal's change; return what failed.

    The caller holds the journal. A step that fails does not end the others; what failed is tried
    again, all of it in order, before this gives up and leaves the journal open. Nothing is undone
    while that would move traffic from a bond that carries to a NIC that does not. ``known`` is the
    change as a guard has it in memory, whatever became of the file.
    """
    document = known if known is not None else journal.read()
    if document is None:
        return []
    document = document | {"reason": document.get("reason") or reason, "state": UNDOING}
    deadline = time.monotonic_ns() + int(UNDO_S * 1e9)  # else the guard ends who is at it
    document["deadline_mono_ns"] = max(deadline, document["deadline_mono_ns"])
    with contextlib.suppress(HostError):  # a full disk keeps nobody from undoing
        journal.write(document)  # so that whoever dies now is taken over from at once
    steps = [step for step in document["undo"] if step.get("since", 0) <= document["phase"]]
    if document["boot_id"] != boot_id():
        steps = [step for step in steps if _outlives_a_boot(step)]
    problems: list[str] = []
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_S)
        try:
            problems = _attempt(steps)
        except Postponed as later:
            problems = [str(later)]
            break  # a cable is not back within seconds; the guard tries again
        if not problems:
            break
    journal.finish(document, FAILED if problems else "undone", problems)
    return problems


def _outlives_a_boot(step: dict[str, Any]) -> bool:
    """Whether a step of the way back still means something after a reboot.

    Files on a disk do. The kernel's network does not: whoever made it makes it again; nor does
    what was in /run, with which NetworkManager would take an empty NIC for a configured one.
    """
    return step["do"] in {"file", "restore"} and not step["path"].startswith("/run/")


def _attempt(steps: Iterable[dict[str, Any]]) -> list[str]:
    problems = []
    for step in steps:
        try:
            perform(step)
        except Postponed:
            raise
        except Exception as error:  # noqa: BLE001 - the other steps must be made, come what may
            problems.append(str(error) or repr(error))
    return problems
