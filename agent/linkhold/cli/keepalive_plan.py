"""``linkhold keepalive plan``: present and wanted values, why, their cost, what they survive."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from linkhold import config
from linkhold.actuators import namespaces
from linkhold.cli.console import Console
from linkhold.cli.shown import duration
from linkhold.decide.keepalive.sysctls import (
    BUSY,
    IDLE,
    RETRIES,
    RTO_MAX,
    Rules,
    differing,
    enough,
    rules_of,
)
from linkhold.decide.keepalive.sysctls import timers_of as timers
from linkhold.decide.survival.kernel import RTO_MAX_MS, model_timeout_s, retries_for
from linkhold.survey import cloud, sysctl_owners
from linkhold.survey.files import Reader

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from linkhold.config.settings import Settings
    from linkhold.model.keepalive import Timers, Values

ROWS_MOST = 20
WIDTH = 100


def run(args: argparse.Namespace) -> int:
    """Print the plan; return 0. Raises :class:`ConfigError` for a configuration that is wrong."""
    settings = config.load(args.config)
    document = plan(settings)
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        _show(document)
    return 0


def plan(settings: Settings) -> dict[str, Any]:
    """Return what is present and wanted in every namespace of the scope, as a document."""
    reader = Reader(Path("/"))
    vendor, seen = cloud.machine(reader)
    rules = rules_of(settings.keepalive, vendor, enforce=False)
    host = namespaces.look(settings.keepalive.namespaces)
    want = rules.idle
    wanted = {**_idle(want.timers if want else None), **rules.busy}
    busy = busy_warnings(rules, host.values[0].values, settings.keepalive.survive)
    return {
        "profile": want.profile.value if want else "unmanaged",
        "cloud": {"name": vendor, "seen": seen} if vendor else None,
        "survive_s": settings.keepalive.survive,
        "wanted": wanted,
        "why": list(want.why) if want else ["keepalive.profile is unmanaged"],
        "warnings": [*(want.warnings if want else ()), *busy],
        "idle": _promise(want.timers if want else None),
        "limit": asdict(want.limit) if want and want.limit else None,
        "namespaces": [_namespace(rules, values) for values in host.values],
        "unseen": host.unseen,
        "set_by": {key: list(sysctl_owners.owners(reader, key)) for key in wanted},
    }


def busy_warnings(rules: Rules, present: Mapping[str, int], survive_s: float) -> Iterator[str]:
    """Yield what is wrong with values for sockets with data in flight."""
    for key in rules.busy:
        if key not in present:
            yield f"this kernel has no net.ipv4.{key}; it stays as it is"
    after = {**present, **differing(rules, present)}
    if not rules.busy or RETRIES not in after:
        return
    rto_max_ms = after.get(RTO_MAX, RTO_MAX_MS)
    survived_s = model_timeout_s(after[RETRIES], rto_max_ms)
    if survived_s < survive_s:
        enough = retries_for(survive_s, rto_max_ms)
        remedy = f"{RETRIES} {enough} would do" if enough else f"raise {RTO_MAX} too"
        yield (
            f"a connection with data in flight is given up after {survived_s:.0f} s ({RETRIES} "
            f"{after[RETRIES]}, {RTO_MAX} {rto_max_ms}), less than the {survive_s:g} s that it "
            f"shall survive; {remedy}"
        )


def _idle(want: Timers | None) -> dict[str, int]:
    if want is None:
        return {}
    return dict(zip(IDLE, (want.time_s, want.interval_s, want.probes), strict=True))


def _promise(found: Timers | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {
        "survives_at_least_s": found.least_survived_s,
        "survives_at_most_s": found.most_survived_s,
        "packets_per_hour": round(found.packets_per_hour, 1),
    }


def _namespace(rules: Rules, values: Values) -> dict[str, Any]:
    return {
        "name": values.name,
        "inode": values.namespace,
        "present": dict(values.values),
        "change": differing(rules, values.values),
        "enough": enough(rules, values.values),
        "idle": _promise(timers(values.values)),
        "error": values.error,
    }


def _show(document: dict[str, Any]) -> None:
    console = Console(soft_wrap=True)
    host = document["namespaces"][0]
    console.print(_headline(document, host))
    for why in document["why"]:
        console.print(f"  because: {why}")
    for warning in document["warnings"]:
        console.print(f"  WARNING: {warning}", style="yellow")
    console.print(_values(document, host))
    console.print()
    console.print(_outage("present", host["idle"]))
    if document["idle"] is not None:
        console.print(_outage("wanted", document["idle"]))
    console.print(
        "Only sockets with SO_KEEPALIVE use these values, from their next idle period on; "
        "for the others see: linkhold keepalive audit"
    )
    for line in _others(document["namespaces"][1:]):
        console.print(line)
    if document["unseen"]:
        console.print(f"not seen: {document['unseen']}", style="yellow")


def _headline(document: dict[str, Any], host: dict[str, Any]) -> str:
    changes = sum(bool(one["change"]) for one in document["namespaces"])
    profile = f"profile {document['profile']}"
    if host["error"]:
        return f"{profile}: the values cannot be read: {host['error']}"
    if not document["wanted"]:
        return f"{profile}: keepalive is not managed, the values stay as they are"
    if not changes:
        return f"{profile}: nothing to change, the values are as wanted or better"
    places = "here" if len(document["namespaces"]) == 1 else f"in {changes} network namespaces"
    return f"{profile}: values would change {places} (linkhold keepalive apply, or mode: enforce)"


def _values(document: dict[str, Any], host: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title="", title_justify="left")
    for column in ("net.ipv4.", "present", "wanted", "", "set by"):
        table.add_column(column, no_wrap=column != "set by")
    # The two busy values only make sense together.
    asked = any(key in document["wanted"] for key in (RETRIES, RTO_MAX))
    shown = [*IDLE, *(k for k in BUSY if k in document["wanted"] or (asked and k == RETRIES))]
    for key in shown:
        present = host["present"].get(key)
        want = document["wanted"].get(key)
        verdict = "change" if key in host["change"] else "stays" if want is not None else "-"
        by = "; ".join(document["set_by"].get(key, ())) or "-"
        table.add_row(key, _number(present), _number(want), verdict, by)
    return table


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _outage(which: str, promise: dict[str, float] | None) -> str:
    if promise is None:
        return f"{which}: unknown"
    least, most = (duration(promise[f"survives_at_{end}_s"]) for end in ("least", "most"))
    return (
        f"{which}: idle connections survive every outage of {least} and at the best {most}; "
        f"{promise['packets_per_hour']:g} packets per hour and connection"
    )


def _others(others: list[dict[str, Any]]) -> Iterator[str]:
    for one in others[:ROWS_MOST]:
        what = ", ".join(f"{key} {value}" for key, value in one["change"].items())
        text = one["error"] or (f"would change: {what}" if what else "as wanted or better")
        yield f"namespace {one['name']}: {text}"
    if len(others) > ROWS_MOST:
        yield f"and {len(others) - ROWS_MOST} more namespaces (see --json)"
