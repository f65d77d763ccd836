"""What a retry raises by itself; everything else is the error of the last attempt."""

from __future__ import annotations

from linkhold.model import LinkholdError


class BudgetSpent(LinkholdError):
    """This node has spent its retries of a dependency: fail now instead of adding to the load.

    Raised ``from`` the error that would have been tried again.
    """


class NoAttempt(LinkholdError):
    """The time limit passed before a single attempt could be made; the text says why."""
