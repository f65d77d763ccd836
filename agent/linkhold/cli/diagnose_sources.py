"""What other parts know that a diagnosis shows: keepalive, the clock, a running agent."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import linkhold
from linkhold import config
from linkhold.cli.keepalive_plan import plan
from linkhold.cli.shown import find_state
from linkhold.daemon.host import ClockCheck
from linkhold.diagnose import Sources
from linkhold.model import ConfigError
from linkhold.model.diagnosis_facts import AgentFacts, ClockFacts, KeepaliveFacts
from linkhold.threads import bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.settings import Settings

CONFIG_S = 2.0
STAMPS = (
    "/usr/lib/clock-epoch",
    "/var/lib/systemd/timesync/clock",
    "/var/lib/chrony/drift",
    "/etc/machine-id",
)
"""Files whose time is past for sure: systemd keeps the clock from running behind the first two."""


def settings_of(named: Path | None) -> tuple[Settings, str]:
    """Return the configuration and why it is not used.

    One that cannot be read, or lies on a disk that hangs, is no reason to look at nothing. Raises
    ConfigError for a ``named`` one.
    """
    try:
        return bounded(lambda: config.load(named), CONFIG_S), ""
    except TimeoutError:
        late = f"could not be read within {CONFIG_S:g} s: does a disk hang?"
        if named is not None:
            raise ConfigError((f"{named} {late}",)) from None
        return config.Settings(), f"the configuration is not used: it {late}"
    except ConfigError as error:
        if named is not None:
            raise
        return config.Settings(), f"the configuration is not used: {error.mistakes[0]}"


def sources_of(settings: Settings, run_dir: Path) -> Sources:
    """Return where a diagnosis of this host has what other parts know."""
    return Sources(keepalive=lambda: keepalive(settings), clock=clock, agent=lambda: agent(run_dir))


def keepalive(settings: Settings) -> KeepaliveFacts:
    """Return in one line how the host's values are. Raises ConfigError and HostError."""
    found = plan(settings)
    host = found["namespaces"][0]
    if host["error"]:
        return KeepaliveFacts(f"cannot be read: {host['error']}")
    present = ", ".join(f"{key} {value}" for key, value in host["present"].items())
    enough = bool(host["enough"])
    short = "" if enough else "; wanted others (linkhold keepalive plan)"
    return KeepaliveFacts(f"{present}{short}", enough)


def clock() -> ClockFacts:
    """Return whether the kernel calls the clock synchronised, and the newest time that is past."""
    stamps = [Path(stamp) for stamp in STAMPS] + [Path(linkhold.__file__)]
    times = [_time_of(stamp) for stamp in stamps]
    return ClockFacts(ClockCheck().synced(), time.time(), max(times))


def _time_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def agent(run_dir: Path) -> AgentFacts:
    """Return what a running agent says of this node; never raises."""
    found = find_state(run_dir)
    if found.document is None or found.problem:
        return AgentFacts(running=False, mute=found.mute)
    document = found.document
    return AgentFacts(
        running=True,
        network=str(document.get("network", "")),
        power=str(document.get("power", "")),
        cause=tuple(map(str, document.get("cause", ()))),
        fleet=str(_inner(document, "detail", "agent").get("leg_b", "")),
    )


def _inner(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    found: Any = document
    for name in names:
        found = found.get(name, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) else {}
