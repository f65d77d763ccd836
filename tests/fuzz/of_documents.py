"""What MQTT, the run folder and files of events bring: states, events, births, commands."""

from __future__ import annotations

import contextlib
import io
import json
import time
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from fuzz.target import Target
from linkhold import wire
from linkhold.cli import events as events_command
from linkhold.cli import status, status_beyond
from linkhold.client import decision
from linkhold.client.settings import Settings as JobSettings
from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import RelaySettings
from linkhold.daemon.start import started_data, stored_state
from linkhold.decide.restore import restore
from linkhold.fleet_view.details import details
from linkhold.fleet_view.picture import Fleet, Heard
from linkhold.fleet_view.plain import listing
from linkhold.fleet_view.rows import Rows
from linkhold.fleet_view.screen import Sight, Size, draw
from linkhold.fleet_view.ui import Ui
from linkhold.model import Moment, PowerState, WireError
from linkhold.mqtt import Received
from linkhold.relay import messages
from linkhold.relay.decide.picture import Picture
from linkhold.relay.decide.values import BrokerSeen
from linkhold.relay.sink import alert_document
from linkhold.report.html import render
from linkhold.report.page import compose
from linkhold.report.records import collate
from linkhold.report.sources import Collected
from linkhold.report.spans import Period
from linkhold.report.story import tell
from linkhold.wire.stored import parse_node_state
from support.outbox import entries
from support.swarm import SwarmNode
from support.world import World, bonded, single

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkhold.relay.decide.values import Heard as Told
    from linkhold.relay.decide.values import Page

BOOT = "boot-1"
NOW_S = 1_800_000_000.0


@cache
def documents() -> tuple[dict[str, Any], ...]:
    """Return states as agents write them: calm, and with nearly everything in them."""
    calm = World()
    calm.look(single(), after_s=1)
    bad = World()
    bad.look(bonded(), after_s=1)
    bad.look(bonded(second=False), after_s=100)
    bad.power(PowerState.LOW, runtime_s=60.0)
    bad.notices(bad.notice("spot", "terminate", 120.0))
    bad.sleep(30)
    since = {"since": "2026-11-29T03:00:00.000Z", "since_mono_ns": 5}
    until = {"until": "2026-11-29T04:00:00.000Z", "until_mono_ns": 1 << 60}
    hold = {"job": "j@1", "uploads": True, "training": True, "why": "w", "by": "anna", "uid": 1}
    rich = {
        **bad.document(),
        "holds": [{**hold, **since, **until, "processes": [[1, 2]]}],
        "maintenance": {"id": "m", "why": "new switch", "by": "anna", **since, **until},
    }
    return calm.document(), rich


def states() -> Sequence[bytes]:
    """Return states, bare and as the events that are published."""
    node = SwarmNode("lab", "n1", started_s=NOW_S)
    node.alert("link.down", "eth0", since_s=NOW_S)
    bare = [json.dumps(one).encode() for one in documents()]
    event = json.dumps({"type": wire.STATE_TYPE, "data": documents()[1]}).encode()
    odd = json.loads(bare[0])
    next(iter(odd["detail"]["paths"].values()))["name"] = 5
    nan = json.loads(bare[0])
    nan["detail"]["power"]["runtime_s"] = "nan"
    return [*bare, event, node.state(), *(json.dumps(one).encode() for one in (odd, nan))]


def state_as_trainers(data: bytes) -> None:
    """Read a state, and be guided by it as the client is."""
    view = wire.parse_state(data)
    for now_ns in (0, view.mono_ns, view.mono_ns + 10**9, time.monotonic_ns()):
        decision.sift(None, view, view.boot_id, now_ns)
        decision.sift(view, view, BOOT, now_ns)
        guidance = decision.guide(JobSettings(hold_on=("network",)), view, now_ns, lambda _: True)
        decision.in_force(guidance, fresh=False, now_ns=now_ns)
        decision.seconds_left(guidance.stop, now_ns)
    decision.why(view)
    decision.same_advice(view, view)


def state_as_status(data: bytes) -> None:
    """Show a state as ``linkhold status`` does."""
    document = wire.parse_state(data).document
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        status._show_any(document)
    assert not any(sign in shown.getvalue() for sign in "\x1b\0\r\x07"), "terminal controls"
    with contextlib.redirect_stdout(pipe()):
        print(json.dumps(document, indent=2, ensure_ascii=False))


def pipe() -> io.TextIOWrapper:
    """Return what a pipe is to the commands, which set it so (cli._never_fail_to_encode)."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")


def state_as_beyond(data: bytes) -> None:
    """Show what probes found, which a state of another version may have otherwise."""
    detail = wire.parse_state(data).document.get("detail")
    if isinstance(detail, dict):
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            list(status_beyond.lines(detail, 5))


def state_after_restart(data: bytes) -> None:
    """Read back what the agent stored."""
    document = wire.load_json(data)
    if isinstance(document, dict):
        parse_node_state(document)


def start_with(data: bytes) -> None:
    """Start an agent with what another stored, and let it look, wait, hear and show itself."""
    world = World(now_ns=10**12)
    stored = stored_state(data)
    world.memory = restore(world.context, stored, world.now)
    started_data(world.context, None, stored)
    world.document()
    world.look(bonded(second=False))
    world.power(PowerState.OK)
    world.sleep(200)
    world.look(single(up=False), after_s=5)
    world.document()


def as_top(leaf: str, data: bytes) -> None:
    """Take a message into the picture of the fleet and draw everything that shows it."""
    fleet = Fleet()
    for kind, payload in (("status", b"online"), (leaf, data), (leaf, data)):
        fleet.take(Heard("b", f"{wire.ROOT}/lab/n1/{kind}", payload, retained=True, at_s=NOW_S))
    rows = Rows().of(fleet, NOW_S)
    drawn, *_ = draw(Sight(rows, {"b": None}, NOW_S), Ui(), Size(100, 20))
    lines = [*listing(rows, NOW_S)]
    for node in fleet.nodes.values():
        drawn += details(node, NOW_S)
    lines += ["".join(text for text, _ in line) for line in drawn]
    "\n".join(lines).encode()
    assert not any(sign in line for line in lines for sign in "\x1b\n\0\r"), "terminal controls"


def as_relay(leaf: str, data: bytes) -> None:
    """Read a message as the relay does, and decide on it."""
    received = Received(f"{wire.ROOT}/lab/n1/{leaf}", data, True, 60, 1)
    heard = messages.read(received, "b")
    if heard is None:
        return
    picture = Picture(RelaySettings(brokers=(BrokerSettings("b"),)), Moment(0, NOW_S))
    picture.watch(["b"], Moment(0, NOW_S))
    pages: list[Page] = []
    told: tuple[Told | BrokerSeen, ...] = (BrokerSeen("b", up=True), heard, heard)
    for second, message in enumerate(told, 1):
        pages += picture.take(message, Moment(second * 10**9, NOW_S + second)).pages
    for second in (20, 4000):
        pages += picture.tick(Moment(second * 10**9, NOW_S + second)).pages
    for page in pages:
        wire.dumps(alert_document(page, Moment(10**9, NOW_S), 300.0))


def births() -> Sequence[bytes]:
    """Return births."""
    node = SwarmNode("lab", "n1", started_s=NOW_S)
    return [node.birth(), node.birth("reboot by root", ("5e54", 12))]


def events() -> Sequence[bytes]:
    """Return events of an agent, of several types."""
    kinds = ("link.down", "network.down", "agent.started", "network.ok", "power.mains_lost")
    made = [entries(n, n, event_type=kind)[0].payload for n, kind in enumerate(kinds, 1)]
    with_data = json.loads(made[1])
    with_data["data"] = {"cause": ["eth0 lost carrier"], "previous": "ok", "previous_s": 3.5}
    return [*made, json.dumps(with_data).encode()]


def as_report(data: bytes) -> None:
    """Read lines of events and make the page of them."""
    collected = Collected()
    collected.add_lines([*data.split(b"\n"), *events()])
    collected.notes()
    period = Period(1_700_000_000.0, 1_700_086_400.0)
    render(compose(tell(collate(collected.records), {}, period), period, period.until_s))


def as_events(data: bytes) -> None:
    """Show events as ``linkhold events`` does with what lies in an outbox."""
    for name in ("_show_line", "_show_json"):
        with contextlib.redirect_stdout(pipe()):
            shown = events_command.readable([data])
            events_command._show_all(shown, getattr(events_command, name))


STATE_READERS = ("wire/documents.py", "wire/holds.py", "wire/stored.py", "wire/topics.py")
REFUSED = (WireError,)
TARGETS = (
    Target(
        "a state",
        ("wire/documents.py", "wire/reading.py"),
        wire.parse_state,
        states,
        REFUSED,
        json=True,
    ),
    Target(
        "a state, as trainers act on it",
        ("client/decision.py", "client/listener.py", *STATE_READERS),
        state_as_trainers,
        states,
        REFUSED,
        json=True,
    ),
    Target(
        "a state, as `status` shows it",
        ("cli/shown.py",),
        state_as_status,
        states,
        REFUSED,
        json=True,
    ),
    Target(
        "what probes found, as `status` shows it",
        ("cli/shown.py",),
        state_as_beyond,
        states,
        REFUSED,
        json=True,
    ),
    Target("a stored state", STATE_READERS, state_after_restart, states, REFUSED, json=True),
    Target(
        "a stored state, as an agent starts with it",
        ("daemon/start.py", "decide/restore.py"),
        start_with,
        states,
        json=True,
    ),
    Target(
        "a state, as `top` shows it",
        ("fleet_view/picture.py", "fleet_view/presence.py"),
        partial(as_top, "state"),
        states,
        json=True,
    ),
    Target(
        "a birth, as `top` shows it",
        ("fleet_view/picture.py",),
        partial(as_top, "birth"),
        births,
        json=True,
    ),
    Target(
        "a status, as `top` shows it",
        ("fleet_view/picture.py",),
        partial(as_top, "status"),
        lambda: [b"online", b"offline"],
    ),
    Target(
        "a state, as the relay reads it",
        ("relay/messages.py",),
        partial(as_relay, "state"),
        states,
        REFUSED,
        json=True,
    ),
    Target(
        "a birth, as the relay reads it",
        ("relay/messages.py",),
        partial(as_relay, "birth"),
        births,
        REFUSED,
        json=True,
    ),
    Target(
        "an event, as the relay reads it",
        ("relay/messages.py",),
        partial(as_relay, "event/link.down"),
        events,
        REFUSED,
        json=True,
    ),
    Target(
        "a status, as the relay reads it",
        ("relay/messages.py",),
        partial(as_relay, "status"),
        lambda: [b"online", b"offline"],
        REFUSED,
    ),
    Target(
        "events, as `report` reads them",
        ("report/records.py", "cli/report.py"),
        as_report,
        events,
        json=True,
    ),
    Target("events, as `events` shows them", ("cli/events.py",), as_events, events, json=True),
)
