"""Cloud notices: what the metadata services' answers say, and what follows over time."""

from linkhold.decide.notices.judge import VENDORS, judge, vendor_of
from linkhold.decide.notices.machine import Memory, Polled, by_urgency, step
from linkhold.decide.notices.values import Announced, Answer, Judged

__all__ = [
    "VENDORS",
    "Announced",
    "Answer",
    "Judged",
    "Memory",
    "Polled",
    "by_urgency",
    "judge",
    "step",
    "vendor_of",
]
