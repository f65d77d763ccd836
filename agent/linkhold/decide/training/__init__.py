"""Which processes train, and which of them belong to one job. Pure: the looking is elsewhere."""

from linkhold.decide.training.grouping import Found, grouped
from linkhold.decide.training.marks import evidence, kept

__all__ = ["Found", "evidence", "grouped", "kept"]
