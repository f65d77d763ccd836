"""Whether the path behind a live link works, and which member of a bond should carry. Pure.

A state machine of its own, since it ticks far more often than the node's core: the agent shows
it what the members' counters, the probes' answers and the host's network say, and it returns
what to send, which member to make active, and what the core should know::

    step(rules, memory, reading, now_ns) -> Step(memory, actions, reports, wake_ns)

How it thinks
-------------
* Received traffic is life. Something sent and nothing received for 100 ms, or a slow probe
  without answer, is a suspicion and starts a **trial**: one probe through the active member, then
  rounds every 30 ms (or twice the slowest answer) through it and its standbys.
* The first answer through the active member ends a trial. It fails when so many probes in a row
  are lost that chance does not explain it any more: three at a target that answered every probe
  so far, ten at one that loses 30 % (:mod:`.evidence`).
* The active member moves only to a standby that answered in the same trial. Silence on every
  member is the target's silence: nothing moves, and trials back off to one in 30 s.
* Other stations' chatter behind a dead switch is no proof: a probe must be answered every two
  seconds whatever is received; while something is received a trial must last twice as long.
* The preferred member carries again once it has answered for long as a standby, and never while
  somebody tests the bond by ``linkhold bond test``.
* A standby is probed once a second with a MAC that is not the bond's. One that never answered
  is unknown, not dead (a VF with spoof check cannot be probed).
"""

from linkhold.decide.probing.machine import step
from linkhold.decide.probing.values import (
    Activate,
    Answer,
    Counters,
    Memory,
    Moved,
    Ordered,
    Pulse,
    Rules,
    SendProbe,
    Sights,
    Step,
    Target,
)

__all__ = [
    "Activate",
    "Answer",
    "Counters",
    "Memory",
    "Moved",
    "Ordered",
    "Pulse",
    "Rules",
    "SendProbe",
    "Sights",
    "Step",
    "Target",
    "step",
]
