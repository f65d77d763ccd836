"""The survival budget of a job: every layer, smallest first, and the sentence above. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.decide.survival import launchers
from linkhold.decide.survival.clients import client_layers
from linkhold.decide.survival.groups import group_layers
from linkhold.decide.survival.kernel import bond_layer, tcp_layers
from linkhold.decide.survival.values import AIM_S, Effect

if TYPE_CHECKING:
    from linkhold.decide.survival.values import JobFacts, Layer


@dataclass(frozen=True, slots=True)
class Budget:
    """What one job survives.

    ``layers`` are sorted by the outage, those without a limit and those not known last.
    ``alone``: all of its ranks run on this node. ``warnings`` are about what hides the end.
    """

    job: str
    layers: tuple[Layer, ...]
    alone: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def weakest(self) -> Layer | None:
        """The layer that ends a running job first, None where no limit is known."""
        running = (one for one in self.layers if one.effect is Effect.SURVIVES)
        return next((one for one in running if one.outage_s not in {None, math.inf}), None)

    def below(self, need_s: float) -> tuple[Layer, ...]:
        """Return the layers that end a running job in an outage of ``need_s``."""
        return tuple(one for one in self.layers if one.below(need_s))


def budget(facts: JobFacts, need_s: float | None = None) -> Budget:
    """Return what a job survives; what raises a layer is worked out for ``need_s`` at least."""
    aim_s = max(AIM_S, need_s or 0.0)
    layers = [
        *(bond_layer(bond) for bond in facts.bonds),
        *tcp_layers(facts, aim_s),
        *launchers.launcher_layers(facts, aim_s),
        *group_layers(facts, aim_s),
        *client_layers(facts, aim_s),
    ]
    return Budget(
        facts.job,
        tuple(sorted(layers, key=_order)),
        launchers.on_this_node(facts),
        launchers.warnings(facts),
    )


def sentence(found: Budget) -> str:
    """Return what a person wants to know of a job, in one sentence."""
    weakest = found.weakest
    if weakest is None or weakest.outage_s is None:
        return f"no limit is known for job {found.job}"
    setting = f"{weakest.value}, {weakest.where}"
    limit = (
        f"an outage of {weakest.outage_s:.4g} s: then {weakest.name} gives up "
        f"({setting}); raise it with {weakest.how}"
    )
    if found.alone:
        return (
            f"job {found.job} runs on this node alone, where its ranks talk over loopback, which "
            f"no outage of the network cuts; over several nodes it would survive {limit}"
        )
    return f"job {found.job} survives {limit}"


def _order(layer: Layer) -> tuple[bool, float, str]:
    return layer.outage_s is None, layer.outage_s or 0.0, layer.name
