"""What an entry of a log file says, told by its text alone: the log may be another machine's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.kernel_log.classify import NONE, classify
from linkhold.model.kernel_log import Finding, LineClass

if TYPE_CHECKING:
    from linkhold.decide.kernel_log.formats import Entry

USER_SPACE = replace(NONE, why="not of the kernel: a program in user space wrote it")


def explain(entry: Entry) -> Finding:
    """Return what an entry says; faults of PCI ports need the host's own tree and are none."""
    if not entry.kernel:
        return USER_SPACE
    finding = classify(entry.message, entry.device)
    if finding.cls is LineClass.NONE and entry.tagless:
        # Some loggers write host and message without ``kernel:`` between them.
        later = classify(entry.message.partition(" ")[2], entry.device)
        return finding if later.cls is LineClass.NONE else later
    return finding
