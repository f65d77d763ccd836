"""Plans as data that needs no more thought: what the performer, the guard and a boot execute.

The result is plain JSON. A message for the kernel is bytes in hexadecimal with holes for
interface indexes, which are filled in by name when it is sent.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from linkhold.actuators import link_messages
from linkhold.decide.bonding.steps import (
    Announce,
    AskPath,
    Await,
    Burst,
    DropLink,
    RestoreFile,
    Run,
    SendObject,
    SetBond,
    SetLink,
    SetSysctls,
    Unchanged,
    Worth,
    WriteFile,
)
from linkhold.rtnl.retarget import Template

if TYPE_CHECKING:
    from linkhold.decide.bonding.steps import Change, Plan, Step

RTM_NEWLINK, RTM_DELLINK = 16, 17
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
IFINFO_BYTES, INDEX_AT = 16, 4

_WORDS = {
    SetSysctls: "sysctls",
    Await: "await",
    Worth: "worth",
    AskPath: "ask",
    Announce: "announce",
    Unchanged: "unchanged",
    WriteFile: "file",
    RestoreFile: "restore",
    Run: "run",
}


def compiled(plan: Plan) -> dict[str, Any]:
    """Return ``plan`` as a document for the journal."""
    return {
        "bond": plan.bond,
        "action": plan.action,
        "phases": [
            {
                "title": phase.title,
                "confirmed": phase.confirmed,
                "steps": [step_document(step) for step in phase.steps],
            }
            for phase in plan.phases
        ],
        "undo": [{"since": one.since, **step_document(one.step)} for one in plan.undo],
        "checks": asdict(plan.checks),
        "confirm_after_s": plan.confirm_after_s,
        "guard_s": plan.guard_s,
        "record": {
            **plan.record,
            "remake": [step_document(step) for step in plan.remake],
            "volatile": [step_document(step) for step in plan.volatile],
            "give_back": [step_document(step) for step in plan.give_back],
            # Who answered a ping on this day says nothing about a repair in a year.
            "checks": {**asdict(plan.checks), "pings": ()},
        },
    }


def step_document(step: Step) -> dict[str, Any]:
    """Return one step as plain data with ``do`` and ``text``."""
    if isinstance(step, Burst):
        changes = [_message(change) for change in step.changes]
        return {"do": "netlink", "text": step.text, "changes": changes}
    return {"do": _WORDS[type(step)], "text": step.text, **asdict(step)}


def _message(change: Change) -> dict[str, Any]:
    kind, flags, template = _encoded(change)
    return {
        "text": change.text,
        "kind": kind,
        "flags": flags,
        "body": template.body.hex(),
        "holes": [list(hole) for hole in template.holes],
        "fine": list(change.fine),
    }


def _encoded(change: Change) -> tuple[int, int, Template]:
    if isinstance(change, SendObject):
        return change.kind, change.flags, change.template
    if isinstance(change, DropLink):
        return RTM_DELLINK, 0, Template(bytes(IFINFO_BYTES), ((INDEX_AT, change.name),))
    if isinstance(change, SetLink):
        return RTM_NEWLINK, 0, link_messages.set_link(change)
    assert isinstance(change, SetBond)  # noqa: S101 - the last of the four
    flags = NLM_F_CREATE | NLM_F_EXCL if change.create else 0
    return RTM_NEWLINK, flags, link_messages.set_bond(change)
