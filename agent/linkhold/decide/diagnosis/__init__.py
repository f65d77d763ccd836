"""From what was seen to what is broken: the verdict, the other faults, and the evidence. Pure."""

from linkhold.decide.diagnosis.evidence import rows
from linkhold.decide.diagnosis.verdict import judged

__all__ = ["judged", "rows"]
