"""Bonds stay as the configuration wants them: what drifts is told, and repaired in mode enforce.

A state machine of its own, beside the node's core: the agent shows it the host's network, the
journal of changes, and who owns which NIC; it returns what to ask, what to repair, and what the
core should know::

    step(rules, memory, reading, now_ns) -> Step(memory, actions, report, wake_ns)

How it thinks
-------------
* A bond is looked after once it was applied: it stands as an active-backup bond, or was committed
  here. What was never applied is said to be so, once. Only what was committed here is repaired.
* A drift is shown at once and counts after a second. Then the journal is read and the owners are
  looked up: while a change of the network is at work nothing is judged.
* A repair is a transaction of its own (``linkhold bond repair``), one at a time, after each
  failure later than before, and never more than six an hour for one bond.
* Who undoes a repair twice within ten minutes wins: a conflict, and no repair for an hour, until
  the configuration is read again or somebody changes the bond by hand.
* Nothing that somebody set down is raised. The kernel closes a NIC that leaves a bond, and one
  that just appeared was never opened: these are nobody's decision (:mod:`.nics`).
"""

from linkhold.decide.keeping.machine import step
from linkhold.decide.keeping.recall import recall
from linkhold.decide.keeping.values import (
    Ended,
    Found,
    HostSeen,
    Inquire,
    JournalSeen,
    Memory,
    Pulse,
    Reloaded,
    Repair,
    Restart,
    Rules,
    Step,
)

__all__ = [
    "Ended",
    "Found",
    "HostSeen",
    "Inquire",
    "JournalSeen",
    "Memory",
    "Pulse",
    "Reloaded",
    "Repair",
    "Restart",
    "Rules",
    "Step",
    "recall",
    "step",
]
