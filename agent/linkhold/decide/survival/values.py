"""What is known of a job, and what is said of each of its layers. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from linkhold.decide.training import marks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.jobs import TrainingProcess

SENSE_MOST = 1e9
"""Thirty years in seconds; a larger number is a mistake, and no count of anything either."""
AIM_S = 900.0
"""What a layer should survive when nobody says: read_timeout=900 was measured to be enough."""


class Effect(str, Enum):
    """What a layer's time means.

    ``survives``: a longer outage ends the run. ``starts``: the same, only while the job starts or
    starts again. ``repairs``: within this time another line has taken over.
    """

    SURVIVES = "survives"
    STARTS = "starts"
    REPAIRS = "repairs"


@dataclass(frozen=True, slots=True)
class Layer:
    """One thing that gives up. ``outage_s`` is inf when it never does, None when not known.

    ``value`` is the setting as it is written, ``where`` what set it, ``how`` what raises it,
    ``source`` the kernel's or library's text that the rule is from, ``note`` when it applies.
    """

    name: str
    outage_s: float | None
    value: str
    where: str
    how: str
    source: str
    effect: Effect = Effect.SURVIVES
    note: str = ""

    def below(self, need_s: float) -> bool:
        """Whether a running job ends by this layer in an outage of ``need_s``."""
        known = self.effect is Effect.SURVIVES and self.outage_s is not None
        return known and (self.outage_s or 0.0) < need_s


@dataclass(frozen=True, slots=True)
class BondFacts:
    """A bond's link monitoring, in milliseconds; 0 where that monitor is off."""

    name: str
    miimon_ms: int = 0
    downdelay_ms: int = 0
    arp_interval_ms: int = 0
    missed_max: int = 2


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Everything that is known of a job on this node.

    ``sysctls`` are files of net/ipv4 in the job's network namespace, which ``namespace`` names;
    ``sysctls_error`` says why they are not known. ``files`` are what the ranks have open;
    ``nccl_conf`` the variables that NCCL reads from a file: name -> (value, file). ``kept_alive``
    of the job's ``connections`` beyond this host have keepalive; None where that is not known.
    """

    job: str
    processes: tuple[TrainingProcess, ...]
    sysctls: Mapping[str, int] = field(default_factory=dict)
    namespace: str = "host"
    sysctls_error: str = ""
    files: frozenset[str] = frozenset()
    nccl_conf: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    bonds: tuple[BondFacts, ...] = ()
    connections: int = 0
    kept_alive: int | None = None

    @property
    def place(self) -> str:
        """The network namespace in words, empty for one's own."""
        return (
            "" if self.namespace in {"host", "own"} else f" in network namespace {self.namespace}"
        )

    @property
    def ranks(self) -> tuple[TrainingProcess, ...]:
        """The processes that train: neither launchers nor what ranks started."""
        return tuple(one for one in self.processes if not (one.is_launcher or one.is_worker))

    @property
    def launchers(self) -> tuple[TrainingProcess, ...]:
        """The launchers, outermost first."""
        return tuple(one for one in self.processes if one.is_launcher)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it is written, and what set it; ``given`` is False for a default."""

    text: str
    where: str
    given: bool = True

    def number(self) -> float | None:
        """Return it as a number, None when it is none or makes no sense."""
        try:
            found = float(self.text)
        except ValueError:
            return None
        return found if 0 <= found <= SENSE_MOST else None


def variable(facts: JobFacts, *names: str) -> Setting | None:
    """Return the first of these variables that a rank, a launcher or NCCL's file has set."""
    for name in names:
        for process in (*facts.ranks, *facts.launchers):
            if name in process.env:
                where = f"{name} in the environment of process {process.pid}"
                return Setting(process.env[name], where)
        if name in facts.nccl_conf:
            value, path = facts.nccl_conf[name]
            return Setting(value, f"{name} in {path}")
    return None


def argument(facts: JobFacts, *names: str) -> Setting | None:
    """Return the first of these options that the training script was started with."""
    for name in names:
        for process in facts.ranks:
            found = marks.option(marks.program(process.words).arguments, name)
            if found is not None:
                return Setting(found, f"argument {name} of process {process.pid}")
    return None


def number_of(setting: Setting | None, default: float) -> float:
    """Return the number that counts: a setting that is none counts as its default."""
    number = None if setting is None else setting.number()
    return default if number is None else number


def where_of(setting: Setting | None, default: str) -> str:
    """Return what set a value."""
    return default if setting is None or setting.number() is None else setting.where


def raised(outage_s: float | None, aim_s: float) -> float:
    """Return a better value than ``outage_s``: the aim, or the double where it is met already."""
    if outage_s is None or not math.isfinite(outage_s) or outage_s < aim_s:
        return aim_s
    return 2 * outage_s
