"""Which outage a running job survives: layer by layer, smallest first. Pure."""

from linkhold.decide.survival.budget import Budget, budget, sentence
from linkhold.decide.survival.values import BondFacts, Effect, JobFacts, Layer

__all__ = ["BondFacts", "Budget", "Effect", "JobFacts", "Layer", "budget", "sentence"]
