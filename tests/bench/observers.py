"""Processes that note when news of a link reaches them: ``python -m bench.observers KIND ...``.

Each prints ``ready``, keeps when news came (CLOCK_MONOTONIC in ns) and the bytes of it until
SIGTERM, then looks at the bytes and prints all as JSON. A process each, so that they do not wait
for one another's interpreter lock; all wait in the kernel, and none works while the agent does:
with two cores that would be measured too.
"""

from __future__ import annotations

import gc
import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.inotify import Replaced
from bench.rtnetlink import MAX_BYTES, RTMGRP_LINK, carrier_of, link_socket

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.mqtt import Connection, Received

WAIT_S = 1.0
NIC = "eth0"

Counts = tuple[bool, int, int]
"""Whether the NIC has carrier, how often it gained and how often it lost it."""
Seen = tuple[int, Any]
Source = Iterator[Seen]
"""When something came, and the raw news."""


class Stop(Exception):
    """SIGTERM came: it interrupts whatever waits."""


def bare(index: str) -> Source:
    """Read rtnetlink with nothing around it: the limit of what Python can do.

    It knows what happened to which link when it has taken the message apart, so that counts.
    """
    sock = link_socket(RTMGRP_LINK)
    _ready()
    while True:
        carrier = carrier_of(sock.recv(MAX_BYTES), int(index))
        if carrier is not None:
            yield time.monotonic_ns(), carrier


def ip_monitor() -> Source:
    """Read the lines of ``ip monitor link``; only a kernel's carrier is in them, no counts."""
    child = subprocess.Popen(["ip", "-o", "monitor", "link"], stdout=subprocess.PIPE, bufsize=0)
    assert child.stdout is not None
    _ready()
    try:
        for line in child.stdout:
            yield time.monotonic_ns(), line
    finally:
        child.kill()
        child.wait()


def ip_monitor_carrier(_seen_ns: int, line: bytes) -> bool | None:
    """Return whether the line says that the NIC has carrier; None when it is of another link."""
    return b"LOWER_UP" in line if f" {NIC}@".encode() in line else None


def state_file(path: str) -> Source:
    """Watch the state file."""
    file = Path(path)
    watch = Replaced(file)
    _ready()
    while True:
        yield watch.wait(), file.read_bytes()


def state_file_carrier(seen_ns: int, content: bytes) -> Counts | None:
    """Return the counts; a state that was decided after the rename was seen is the next one's."""
    document = json.loads(content)
    return _counts_in(document) if document["mono_ns"] <= seen_ns else None


def leg_a(path: str) -> Source:
    """Subscribe to the state as a training process does."""
    from linkhold.mqtt import Connection

    connection = Connection(secrets.token_hex(8), unix=True)
    connection.open_unix(Path(path))
    connection.subscribe("linkhold/v1/+/+/state")
    return _received(connection)


def leg_a_carrier(_seen_ns: int, message: Received) -> Counts | None:
    """Return the counts in a published state."""
    return _counts_in(json.loads(message.payload)["data"])


def fleet(port: str) -> Source:
    """Subscribe to all events as on-call does."""
    from linkhold.mqtt import Connection

    connection = Connection(secrets.token_hex(8))
    connection.open_tcp("127.0.0.1", int(port))
    connection.subscribe("linkhold/v1/+/+/event/#")
    return _received(connection)


def fleet_carrier(_seen_ns: int, message: Received) -> Counts | None:
    """Return the counts in an event of the NIC that has some."""
    event = json.loads(message.payload)
    if event["subject"] != NIC or "ups" not in event["data"]:
        return None
    return event["type"] == "link.up", event["data"]["ups"], event["data"]["downs"]


def event_type(_seen_ns: int, message: Received) -> str:
    """Return the type of an event."""
    return message.topic.rsplit("/", 1)[1]


def _received(connection: Connection) -> Source:
    from linkhold.mqtt import Lost, Received, Subscribed

    while True:
        notices = connection.service(WAIT_S)
        seen_ns = time.monotonic_ns()
        for notice in notices:
            if isinstance(notice, Received):
                yield seen_ns, notice
            elif isinstance(notice, Subscribed):
                _ready()
            elif isinstance(notice, Lost):
                raise SystemExit(f"connection lost: {notice.reason}")


def _counts_in(document: dict[str, Any]) -> Counts | None:
    link = document["detail"]["links"].get(NIC)
    return link and (link["carrier"], link["carrier_ups"], link["carrier_downs"])


def _ready() -> None:
    print("ready", flush=True)


def _stop(*_: object) -> None:
    raise Stop


def _as_it_is(_seen_ns: int, news: Any) -> Any:
    return news


KINDS: dict[str, tuple[Callable[..., Source], Callable[[int, Any], Any]]] = {
    "bare": (bare, _as_it_is),
    "ip_monitor": (ip_monitor, ip_monitor_carrier),
    "state_file": (state_file, state_file_carrier),
    "leg_a": (leg_a, leg_a_carrier),
    "fleet": (fleet, fleet_carrier),
    "events": (fleet, event_type),
}
"""How to observe, and what the news then says (None: nothing of interest)."""


def main(kind: str, *arguments: str) -> None:
    """Observe until SIGTERM."""
    signal.signal(signal.SIGTERM, _stop)
    gc.disable()
    observe, look = KINDS[kind]
    seen: list[Seen] = []
    try:
        seen.extend(observe(*arguments))
    except Stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    looked = ((seen_ns, look(seen_ns, news)) for seen_ns, news in seen)
    print(json.dumps([one for one in looked if one[1] is not None]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
