"""The SOP of an outage in one run: steps side by side, each with its own deadline.

Works with or without an agent. Each step takes what it may have; what it could not see is in the
report beside what it saw.
"""

from linkhold.diagnose.plan import Aim, Plan, Sources, plan_of
from linkhold.diagnose.report import document
from linkhold.diagnose.run import diagnose

__all__ = ["Aim", "Plan", "Sources", "diagnose", "document", "plan_of"]
