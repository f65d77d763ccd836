"""Which of the node's lines to the world default traffic should take. Pure.

A state machine of its own, beside the node's core, since it ticks with its probes: the agent
shows it what the host's network, the answers and its own routes say; it returns whom to ask,
which uplink to put in front, and what the core should know::

    step(rules, memory, reading, now_ns) -> Step(memory, actions, report, wake_ns)

How it thinks
-------------
* Each uplink is asked through its own interface, in rounds: one echo request to each of its
  targets. Any answer before the next round answers the round, however late. ``down_after``
  unanswered rounds in a row are its death; lost carrier, a removed interface or a default route
  that is gone are its death at once.
* What never answered is unknown, not dead, unless the same target answers through another
  uplink meanwhile. What cannot be asked (reverse path filter, firewall) is unknown.
* Default traffic leaves an uplink only when that is dead, and only for one that answered after
  the silence began. When nobody answers, the host's own routes stand.
* It returns to a better uplink after ``up_after_s`` without two misses in a row; this doubles
  with each return that did not last ten minutes, up to an hour. When the uplink in use dies
  meanwhile, it returns at once.
* Where the host's own routes move to a spare (a manager removes them with the interface), the
  spare is put in front as well, so that the return is a decision of the machine, too.
* Never more than ``switches_per_hour``; the last one is kept for a failure, never spent on a
  return.
* A metered uplink is asked rarely until it is needed: it is in use, it or the one in use misses.
"""

from linkhold.decide.uplinks.machine import step
from linkhold.decide.uplinks.values import (
    Answer,
    Ask,
    LineRules,
    LineSight,
    Memory,
    Place,
    Placed,
    Pulse,
    Rules,
    Sights,
    Step,
    Unsent,
    Withdraw,
)

__all__ = [
    "Answer",
    "Ask",
    "LineRules",
    "LineSight",
    "Memory",
    "Place",
    "Placed",
    "Pulse",
    "Rules",
    "Sights",
    "Step",
    "Unsent",
    "Withdraw",
    "step",
]
