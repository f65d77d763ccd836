"""A kernel of our own for tests: scenarios run as Python functions inside User-Mode Linux.

``docs/lab.md`` shows how to write one. This package file imports only what scenarios need, since
the guest imports it too: the host's side is :mod:`support.lab.host`.
"""

from support.lab.box import Box
from support.lab.scenarios import Outcome, Scenario, ScenarioFailed, scenario

__all__ = ["Box", "Outcome", "Scenario", "ScenarioFailed", "scenario"]
