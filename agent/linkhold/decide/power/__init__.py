"""Power: what each source's words mean, and what all of them together say of the node."""

from linkhold.decide.power.machine import earliest_deadline, repeated, step
from linkhold.decide.power.meaning import Meaning, What
from linkhold.decide.power.values import Memory, Rules, Said, SourceRules, Step

__all__ = [
    "Meaning",
    "Memory",
    "Rules",
    "Said",
    "SourceRules",
    "Step",
    "What",
    "earliest_deadline",
    "repeated",
    "step",
]
