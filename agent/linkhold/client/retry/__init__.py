"""Retries that do not hurt the others.

::

    from linkhold.client.retry import dependency, retry

    dependency("s3").limit(calls_at_once=4)

    @retry("s3", time_limit_s=600)
    def push(path): ...

Exponential pauses with full jitter; no attempt while the node's state or the breaker of the
dependency says that it cannot work; a budget of retries and a limit of calls at once that all
processes of the node share. Works without an agent. See ``docs/retry.md``.
"""

from linkhold.client.retry.breaker import Breaker
from linkhold.client.retry.calls import Retry, retry
from linkhold.client.retry.dependency import counters, dependency
from linkhold.client.retry.errors import BudgetSpent, NoAttempt
from linkhold.client.retry.families import Family, family
from linkhold.client.retry.policy import Limits, Policy

__all__ = [
    "Breaker",
    "BudgetSpent",
    "Family",
    "Limits",
    "NoAttempt",
    "Policy",
    "Retry",
    "counters",
    "dependency",
    "family",
    "retry",
]
