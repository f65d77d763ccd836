"""``linkhold status``: how this node is, for a tired person or, with --json, for a program."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from rich.errors import NotRenderableError
from rich.table import Table
from rich.text import Text

from linkhold.cli import status_beyond, status_power
from linkhold.cli.console import Console
from linkhold.cli.hold import described
from linkhold.cli.shown import add_run_dir, clock, duration, find_state, legible, run_dir_of
from linkhold.decide.bond_paths import SLOW_MS
from linkhold.model import WireError
from linkhold.wire.reading import flaw

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

STYLES = {
    "ok": "green",
    "go": "green",
    "up": "green",
    "alive": "green",
    "degraded": "yellow",
    "warning": "yellow",
    "newest": "yellow",
    "hold": "red",
    "down": "red",
    "dead": "red",
    "critical": "bold red",
    "battery": "red",
    "low": "bold red",
}
NO_AGENT = 1
WRAPPED = frozenset({"addresses", "carries", "members", "protected", "reason", "says"})
PIPE_COLUMNS = 200
NARROW_COLUMNS = 90
BONDS_TITLE = "\nbonds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    add_run_dir(parser)
    parser.add_argument("--json", action="store_true", help="print the state document")


def run(args: argparse.Namespace) -> int:
    """Print the state; return 0 when it comes from a running agent, else 1."""
    found = find_state(run_dir_of(args))
    if found.problem:
        print(f"linkhold: {found.problem}", file=sys.stderr)
    if found.document is None:
        return NO_AGENT
    if args.json:
        print(json.dumps(found.document, indent=2))
    else:
        _show_any(found.document)
    return NO_AGENT if found.problem else 0


def _show_any(document: Mapping[str, Any]) -> None:
    try:
        show(legible(document))
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"a state of another version, see --json ({flaw(error)})") from error
    except NotRenderableError as error:  # a number where a text should be
        raise WireError("a state of another version, see --json") from error


def show(document: Mapping[str, Any]) -> None:
    """Print a state document as tables."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    # A pipe or file has no width; a table cut to 80 columns would be of no use there.
    width = None if on_terminal else PIPE_COLUMNS
    console = Console(width=width)
    detail = document["detail"]
    console.print(_headline(document))
    holds = document.get("holds", ())
    by_operator = any(hold["uploads"] and not hold["job"] for hold in holds)
    console.print(_advice(document["advice"], document["network"], held=by_operator))
    for hold in holds:
        console.print(_hold(hold))
    network_causes = len(document["cause"]) - len(holds)  # the last are the holds
    for line in document["cause"][: max(0, network_causes)]:
        console.print(f"  because: {line}")
    for alert in document["alerts"]:
        console.print(_alert(alert))
    for line in status_power.lines(document):
        console.print(line)
    links = _links(detail["links"], console.width)
    uplinks = _uplinks(detail.get("uplinks", {}).get("links", {}))
    power = _power(detail)
    for table in (_ways(detail["paths"]), uplinks, power, _bonds(detail), links):
        if table.row_count:
            console.print(table)
        if table.title == BONDS_TITLE:
            for line in _keeps(detail["bonds"]):
                console.print(f"  {line}")
    console.print("", *status_beyond.lines(detail, time.monotonic_ns()), sep="\n")
    if detail.get("keepalive"):
        console.print(_keepalive(detail["keepalive"]))
    _agent(console, detail["agent"])


def _styled(word: str) -> Text:
    return Text(word, style=STYLES.get(word, ""))


def _headline(document: Mapping[str, Any]) -> Text:
    age_s = (time.monotonic_ns() - document["since_mono_ns"]) / 1e9
    return Text.assemble(
        (document["node"], "bold"),
        f" (site {document['site']}): network ",
        _styled(document["network"]),
        f" since {clock(document['since'])} ({duration(age_s)}), power ",
        _styled(document["power"]),
    )


def _advice(advice: Mapping[str, Any], network: str, *, held: bool) -> Text:
    text = Text.assemble("advice: uploads ", _styled(advice["uploads"]))
    if advice["uploads"] == "hold" and network != "down" and not held:
        text.append(" until the network has stayed up for a while")
    text.append(", training ").append(_styled(advice["training"]))
    if advice["holds"]:
        text.append(f" (hold where the job asked for it: {', '.join(advice['holds'])})")
    if advice["checkpoint"]:
        text.append(f", checkpoint now: {advice['checkpoint']['reason']}")
    if advice["stop"]:
        text.append(f", stop: {advice['stop']['reason']}")
    return text


def _hold(hold: Mapping[str, Any]) -> Text:
    left_s = (hold["until_mono_ns"] - time.monotonic_ns()) / 1e9
    return Text.assemble(
        ("HOLD ", STYLES["hold"]),
        f"{described(hold)} by {hold['by']} until {clock(hold['until'])} "
        f"({duration(left_s)} left; linkhold resume ends it): {hold['why']}",
    )


def _alert(alert: Mapping[str, Any]) -> Text:
    return Text.assemble(
        (f"{alert['severity'].upper()} ", STYLES.get(alert["severity"], "")),
        f"since {clock(alert['since'])}: {alert['text']}",
    )


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        # What is long wraps; what is short stays whole on a narrow terminal.
        table.add_column(column, no_wrap=column not in WRAPPED)
    return table


def _ways(ways: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("\nways out", ("name", "via", "link", "carries"))
    for way in ways.values():
        verdict = _styled("ok") if way["carries"] else Text(way["obstacle"], style="red")
        table.add_row(way["name"], way["via"] or "-", way["link"], verdict)
    return table


def _uplinks(uplinks: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("\nuplinks", ("uplink", "traffic", "verdict", "for", "answers in", "reason"))
    for name, line in uplinks.items():
        since_ns = line["since_ns"]
        age = duration((time.monotonic_ns() - since_ns) / 1e9) if since_ns else "-"
        traffic = Text("yes", style="green" if name == next(iter(uplinks)) else "yellow")
        table.add_row(
            f"{name} (metered)" if line["metered"] else name,
            traffic if line["active"] else "-",
            _styled(line["verdict"]),
            age,
            f"{line['rtt_ms']:g} ms" if line["rtt_ms"] else "-",
            line["reason"] or "-",
        )
    return table


def _power(detail: Mapping[str, Any]) -> Table:
    table = _table("\npower", status_power.COLUMNS)
    for name, kind, state, *others in status_power.rows(detail):
        style = STYLES.get(state.partition(" ")[0], "")
        table.add_row(name, kind, Text(state, style=style), *others)
    return table


def _bonds(detail: Mapping[str, Any]) -> Table:
    table = _table(BONDS_TITLE, ("bond", "mode", "active", "members", "protected"))
    for name, bond in detail["bonds"].items():
        if not bond.get("there", True):
            continue
        members = ", ".join(
            f"{member} {_member(value)}" for member, value in bond["members"].items()
        )
        spare = _spare(bond, detail["links"].get(name, {}))
        table.add_row(name, bond["mode"], bond["active"] or "-", members or "none", spare)
    return table


def _keeps(bonds: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line for each thing in which a bond is not as the configuration wants it."""
    for name, bond in bonds.items():
        if bond.get("applied") is False:
            yield (
                f"{name} is configured but not there: it was never applied, or taken away by "
                f"linkhold bond remove; see: linkhold bond status {name}"
            )
        for drift in bond.get("drift", ()):
            hint = drift["obstacle"] or bond["repair"]
            yield f"{name}: {drift['text']}" + (f" ({hint})" if hint else "")
        conflict = bond.get("conflict")
        if conflict:
            by = f"; {conflict['by']}" if conflict["by"] else ""
            yield f"{name}: repairs were undone twice, so none is made any more{by}"


def _member(member: Mapping[str, Any]) -> str:
    if not member["good"]:
        return "LOST"
    return "NO ANSWER" if member["path"] == "dead" else "ok"


def _spare(bond: Mapping[str, Any], link: Mapping[str, Any]) -> Text:
    if not bond["monitored"]:
        return Text("no: no link monitoring, it never fails over", style="red")
    options = link.get("bond") or {}
    slow_ms = options.get("miimon_ms") or options.get("arp_interval_ms") or 0
    if slow_ms > SLOW_MS:
        return Text(f"no: it notices a lost member after up to {slow_ms / 1000:g} s", style="red")
    return Text("yes", style="green") if bond["redundant"] else Text("no spare", style="yellow")


def _links(links: Mapping[str, Mapping[str, Any]], width: int) -> Table:
    columns = ["link", "state", "for", "losses", "speed", "driver", "addresses"]
    shown = 4 if width < NARROW_COLUMNS else len(columns)
    table = _table("\nlinks", columns[:shown])
    for name, link in links.items():
        state = "up" if link["carrier"] else "down" if link["admin_up"] else "set down"
        since_ns = link.get("since_mono_ns")
        age = duration((time.monotonic_ns() - since_ns) / 1e9) if since_ns else "-"
        speed = link["speed_mbps"]
        addresses = ", ".join(f"{a['address']}/{a['prefix_len']}" for a in link["addresses"])
        cells: list[str | Text] = [
            name,
            _styled(state),
            age,
            str(link["carrier_downs"]),
            f"{speed} Mbit/s" if speed else "-",
            link["driver"] or link["kind"] or "-",
            addresses or "-",
        ]
        table.add_row(*cells[:shown])
    return table


def _keepalive(found: Mapping[str, Any]) -> str:
    """Return one line: what idle connections survive, and what is to be done about it."""
    present, wanted = found["present"], found["wanted"]
    error = found["error"]
    if present is None or wanted is None:
        if error:
            return f"keepalive: {error}"
        return "keepalive: not managed" if found["profile"] else "keepalive: not looked at yet"
    least_s = present["interval_s"] * (present["probes"] - 1)
    values = f"{present['time_s']}/{present['interval_s']}/{present['probes']}"
    text = f"keepalive: {values}, idle connections that use it survive {duration(least_s)}"
    if not found["enough"]:
        want = f"{wanted['time_s']}/{wanted['interval_s']}/{wanted['probes']}"
        conflict = any(drift["conflict"] for drift in found["drifts"])
        hint = "mode observe; see: linkhold keepalive plan"
        if found["enforced"]:
            hint = "somebody sets it back" if conflict else "not written"
        text += f"; wanted {want} ({hint})"
    counts = found["connections"]
    if counts:
        total = sum(counts.values())
        text += f"; {counts.get('unprotected', 0)} of {total} connections of training unprotected"
    return f"{text}; {error}" if error else text


def _agent(console: Console, agent: Mapping[str, Any]) -> None:
    waiting = f" ({agent['pending']} to send, {agent['parked']} refused)"
    console.print(
        f"agent: trainers' broker {agent['leg_a']}; fleet {agent['leg_b']}; "
        f"outbox {agent['outbox']}{waiting}"
    )
