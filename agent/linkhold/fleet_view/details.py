"""One node in full, from its state document, as lines for a screen.

The document comes from another machine and perhaps from another version: a part that cannot be
read is said to be so, and the others are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.fleet_view.presence import document_of
from linkhold.fleet_view.screen import Line, style_of
from linkhold.fleet_view.words import lasted, printable
from linkhold.model import WireError
from linkhold.wire import from_rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from linkhold.fleet_view.picture import NodeView

MOST_LINKS = 64

Part = tuple[str, str]


def details(node: NodeView, now_s: float) -> list[Line]:
    """Return everything that is known of a node; ``now_s`` is our wall clock."""
    site, name = (printable(part, 64) for part in node.key)
    lines: list[Line] = [((name, "bold"), (f" (site {site}): ", ""), _word(node.presence))]
    if node.planned:
        lines.append((("stopped on purpose: ", ""), (node.planned, "")))
    if node.gone_s is not None:
        lines.append(((f"gone for {lasted(now_s - node.gone_s)}", "bold red"),))
    if node.problem:
        lines.append(((f"its state cannot be read: {node.problem}", "red"),))
    if node.present is None:
        return [*lines, (("no state has come from it", ""),)]
    try:
        document = document_of(node.present)
    except WireError as error:
        return [*lines, ((f"its state cannot be read: {printable(error)}", "red"),)]
    for part in PARTS:
        try:
            lines += list(part(document, now_s))
        except (AttributeError, KeyError, TypeError, ValueError, WireError) as error:
            what = part.__name__.strip("_")
            text = f"{what}: of another version ({type(error).__name__}: {printable(error, 80)})"
            lines.append(((text, "dim"),))
    return lines


def _word(word: object) -> Part:
    return printable(word, 40), style_of(str(word))


def _clock(document: Mapping[str, Any], now_s: float) -> Iterator[Line]:
    at_s = from_rfc3339(document["at"])
    unset = "; its clock is not set" if document.get("clock_synced") is False else ""
    text = f"state of {printable(document['at'], 40)}, {lasted(now_s - at_s)} old{unset}"
    yield ((text, "dim"),)


def _network(document: Mapping[str, Any], now_s: float) -> Iterator[Line]:
    since = document.get("since")
    age = f" for {lasted(now_s - from_rfc3339(since))}" if since else ""
    yield (
        ("network ", ""),
        _word(document["network"]),
        (f"{age}, power ", ""),
        _word(document["power"]),
    )
    for cause in document.get("cause", ()):
        yield ((f"  because: {printable(cause)}", ""),)


def _advice(document: Mapping[str, Any], _now_s: float) -> Iterator[Line]:
    advice = document["advice"]
    spans: list[Part] = [("advice: uploads ", ""), _word(advice["uploads"])]
    spans += [(", training ", ""), _word(advice["training"])]
    if advice.get("holds"):
        names = ", ".join(map(str, advice["holds"]))
        spans.append((f" (held where the job asked for it: {printable(names)})", ""))
    for name in ("checkpoint", "stop"):
        if advice.get(name):
            spans.append((f", {name}: {printable(advice[name]['reason'])}", "bold"))
    yield tuple(spans)
    work = document.get("maintenance")
    if work:
        text = f"planned work by {printable(work['by'], 64)} until {printable(work['until'], 40)}"
        yield ((f"{text}: {printable(work['why'])}", "bold"),)
    for hold in document.get("holds", ()):
        what = printable(hold.get("job") or "this node", 80)
        until = printable(hold.get("until"), 40)
        text = f"  {what} by {printable(hold['by'], 64)} until {until}: {printable(hold['why'])}"
        yield (("HOLD", "red"), (text, ""))


def _alerts(document: Mapping[str, Any], now_s: float) -> Iterator[Line]:
    for alert in document.get("alerts", ()):
        severity = str(alert["severity"])
        style = "bold red" if severity == "critical" else "yellow"
        age = f" for {lasted(now_s - from_rfc3339(alert['since']))}" if alert.get("since") else ""
        yield ((f"{printable(severity, 16).upper()}{age}: ", style), (printable(alert["text"]), ""))


def _notices(document: Mapping[str, Any], now_s: float) -> Iterator[Line]:
    for notice in document.get("notices", ()):
        end = ""
        if notice.get("deadline"):
            left_s = from_rfc3339(notice["deadline"]) - now_s
            end = f", in {lasted(left_s)}" if left_s > 0 else ", now"
        text = f"notice: {printable(notice['kind'], 40)}: {printable(notice['action'], 40)}{end}"
        yield ((f"{text} ({printable(notice['source'], 120)})", "magenta"),)


def _ways(document: Mapping[str, Any], _now_s: float) -> Iterator[Line]:
    for way in document["detail"]["paths"].values():
        verdict = ("carries", "green")
        if not way["carries"]:
            verdict = (printable(way["obstacle"]), "red")
        via = f" via {printable(way['via'], 64)}" if way["via"] else ""
        text = f"way out {printable(way['name'], 64)}{via} on {printable(way['link'], 32)}: "
        yield ((text, ""), verdict)


def _probes(document: Mapping[str, Any], _now_s: float) -> Iterator[Line]:
    probes = document["detail"].get("probes") or {}
    for name, one in probes.items():
        if one["verdict"] != "alive":
            text = f"beyond: {printable(name, 80)} is {printable(one['verdict'], 20)}"
            yield ((f"{text} ({printable(one.get('reason') or 'no reason told')})", "yellow"),)


def _power(document: Mapping[str, Any], _now_s: float) -> Iterator[Line]:
    for name, one in document["detail"]["power"].get("sources", {}).items():
        left_s, charge = one.get("runtime_s"), one.get("charge")
        facts = [
            "silent" if one.get("stale") else "",
            f"{lasted(float(left_s))} left" if left_s is not None else "",
            f"{float(charge):.0f} % charged" if charge is not None else "",
            printable(one.get("detail") or "", 120),
        ]
        rest = "".join(f", {fact}" for fact in facts if fact)
        yield ((f"power {printable(name, 64)}: ", ""), _word(one["state"]), (rest, ""))


def _bonds(document: Mapping[str, Any], _now_s: float) -> Iterator[Line]:
    for name, bond in document["detail"]["bonds"].items():
        if not bond.get("there", True):
            yield ((f"bond {printable(name, 32)} is configured but not there", "yellow"),)
            continue
        spans: list[Part] = [(f"bond {printable(name, 32)}: ", "")]
        for member, one in bond["members"].items():
            state = "ok" if one["good"] else "down"
            state = "no answer" if one["good"] and one.get("path") == "dead" else state
            mark = "*" if member == bond["active"] else ""
            spans += [(f"{printable(member, 32)}{mark} ", ""), (state, style_of(state) or "red")]
            spans.append((", ", ""))
        yield (*spans, ("a spare is there", "green") if bond["redundant"] else ("no spare", "red"))


def _links(document: Mapping[str, Any], _now_s: float) -> Iterator[Line]:
    links = list(document["detail"]["links"].items())
    for name, link in links[:MOST_LINKS]:
        state = "ok" if link["carrier"] else "down" if link["admin_up"] else "set down"
        speed = f", {link['speed_mbps']} Mbit/s" if link.get("speed_mbps") else ""
        downs = link.get("carrier_downs")
        losses = f", lost {downs} time{'' if downs == 1 else 's'}" if downs else ""
        kind = printable(link.get("driver") or link.get("kind") or "-", 32)
        label = "up" if state == "ok" else state
        yield (
            (f"link {printable(name, 32)}: ", ""),
            (label, style_of(state)),
            (f"{printable(speed)}{printable(losses)}, {kind}", ""),
        )
    if len(links) > MOST_LINKS:
        yield ((f"and {len(links) - MOST_LINKS} links more", "dim"),)


def _agent(document: Mapping[str, Any], _now_s: float) -> Iterator[Line]:
    agent = document["detail"]["agent"]
    text = (
        f"agent: trainers' broker {printable(agent['leg_a'], 120)}; outbox "
        f"{printable(agent['outbox'], 120)} ({printable(agent['pending'], 20)} to send)"
    )
    yield ((text, ""),)


PARTS: tuple[Callable[[Mapping[str, Any], float], Iterator[Line]], ...] = (
    _network,
    _advice,
    _alerts,
    _notices,
    _ways,
    _probes,
    _power,
    _bonds,
    _links,
    _agent,
    _clock,
)
