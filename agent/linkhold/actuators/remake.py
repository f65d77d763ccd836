"""A committed bond made again from its record alone: as a transaction, or early at boot.

Standard library only, and the record is all that is read: no configuration, no broker, no D-Bus.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from linkhold.actuators.checks import failures
from linkhold.actuators.journal import boot_id
from linkhold.actuators.perform import perform
from linkhold.actuators.undo import undo
from linkhold.model import LinkholdError
from linkhold.survey import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkhold.actuators.journal import Document, Journal

ANSWER_S = 20.0
"""How long a fresh bond may take at boot until its gateway answers (a switch's spanning tree)."""
GUARD_S = 60.0
CONFIRM_S = 5.0


def again(record: Mapping[str, Any]) -> Document:
    """Return the compiled plan that makes the bond of ``record``, which is gone, once more."""
    name = record["bond"]
    return {
        "bond": name,
        "action": "adjust",
        "phases": [
            {
                "title": f"make {name} again as it was committed",
                "confirmed": False,
                "steps": record["remake"],
            }
        ],
        "undo": [{"since": 0, **step} for step in record["give_back"]],
        "checks": record["checks"],
        "confirm_after_s": CONFIRM_S,
        "guard_s": GUARD_S,
        "record": {key: value for key, value in record.items() if key != "at"},
    }


def at_boot(journal: Journal, tell: Callable[[str], None]) -> list[str]:
    """Undo what a crash left unfinished, then make every bond that no manager makes by itself.

    Returns what went wrong, in words. A bond over which nothing answers is taken away again and
    its addresses are given to the NIC that had them before.
    """
    problems = []
    with journal.held():
        found = journal.read()
        if found is not None and found["boot_id"] != boot_id():
            tell(f"undoing a change of {found['bond']} that a crash left unfinished")
            problems += undo(journal, "the machine went down before it was committed")
        there = {link.name for link in snapshot.take().links}
        for name, record in journal.committed().items():
            if record["persist"] == "linkhold" and name not in there:
                problems += _make(name, record, tell)
    return problems


def _make(name: str, record: Mapping[str, Any], tell: Callable[[str], None]) -> list[str]:
    problems = _perform_all(record["remake"])
    end = time.monotonic() + ANSWER_S
    while bad := _unreachable(record):
        if time.monotonic() > end:
            tell(f"{name} carries nothing ({'; '.join(bad)}): giving the NIC back")
            return [*problems, *bad, *_perform_all(record["give_back"])]
        time.sleep(0.2)
    tell(f"{name} is there and its gateway answers")
    return problems


def _unreachable(record: Mapping[str, Any]) -> list[str]:
    """Return which targets do not answer. A member that is missing is no reason to give up."""
    checks = {**record["checks"], "bonds": {}, "members": {}, "pings": ()}
    return failures(checks)


def _perform_all(steps: list[Document]) -> list[str]:
    problems = []
    for step in steps:
        try:
            perform(step)
        except (LinkholdError, OSError) as error:
            problems.append(str(error))
    return problems
