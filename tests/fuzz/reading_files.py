"""How linkhold reads its files, each in a folder of its own."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import TYPE_CHECKING

from fuzz import right
from linkhold.actuators import cover_record, sysctls
from linkhold.actuators.journal import Journal
from linkhold.cli import shown
from linkhold.client.data.gate import StateGate
from linkhold.client.retry import sealed, standing
from linkhold.client.retry.breaker import file_kind
from linkhold.client.sources import FileSource
from linkhold.client.spool import entry, manifest
from linkhold.client.spool.claim import Claim
from linkhold.client.spool.turns import _last
from linkhold.config import access, certificate
from linkhold.config.brokers import BrokerSettings
from linkhold.config.settings import OutboxSettings
from linkhold.fleet_view.brokers import parse_url
from linkhold.install.plan import _refuse_to_lose
from linkhold.relay import apprise_sink
from linkhold.store.outbox import ReplayRequest, Stored
from linkhold.store.outbox_file import open_store, read_history
from support.outbox import entries

if TYPE_CHECKING:
    from pathlib import Path


def outbox(place: Path) -> None:
    """Open an outbox as the agent does, use it, and read it as a command does."""
    for left in place.glob("outbox.db*"):
        if left.name != "outbox.db":
            left.unlink()
    opened = open_store(place, OutboxSettings())
    assert opened.outbox is not None, opened.problem
    assert not opened.problem or "kept as" in opened.problem, opened.problem
    try:
        opened.outbox.pending(0, 100)
        opened.outbox.history(0.0, 100)
        opened.outbox.replay(ReplayRequest("r", "s1", 1, 9))
        opened.outbox.write([Stored(one.seq, one) for one in entries(20, 21)], b"{}")
        opened.outbox.purge(time.time())
    except sqlite3.DatabaseError:
        pass  # met later: the shelf sets the file aside then (tests/unit/test_outbox*.py)
    finally:
        opened.outbox.close()


def history(place: Path) -> None:
    """Read an outbox without an agent."""
    read_history(place, 0.0, 100)


def journal(name: str, place: Path) -> None:
    """Read all files of the journal as the agent and the commands do."""
    found = Journal(place)
    try:
        if name.startswith("committed"):
            found.committed()
        elif name == "last.json":
            found.last()
        else:
            found.read()
    finally:
        damaged: list[str] = []
        found.committed(damaged)
        assert all("damaged" in text or ": " in text for text in damaged)


def keepalive(place: Path) -> None:
    """Read the record of sysctls and ask it what was there."""
    record = sysctls.Record.load(place)
    record.keep([int(inode) for inode in record.namespaces])


def cover(place: Path) -> None:
    """Read the record of covered sockets."""
    record = cover_record.Record(place)
    record.take_problems()
    record.by_process()


def setup_records(place: Path) -> None:
    """Look whether a removal would lose a bond, as ``setup --remove`` does."""
    _refuse_to_lose(place)


def spooled(place: Path) -> None:
    """Read the manifest of an entry of the spool."""
    right.manifest(entry.read_manifest(place))


def signed_manifest(data: bytes) -> None:
    """Read a manifest whose checksum is right, whatever it says: also a forger can count."""
    fields = json.loads(data)["manifest"]
    signed = manifest._canonical({"manifest": fields, "sha256": manifest._digest(fields)})
    right.manifest(manifest.decode(signed))


def left_state(place: Path) -> None:
    """Show what a dead agent left, as ``linkhold status`` does."""
    shown._left_behind(place / "state.json", "no agent answers")


def gate(place: Path) -> None:
    """Ask the state file whether reading data makes sense."""
    StateGate(place).closed()
    FileSource().read(place / "state.json")


def last_turn(place: Path) -> None:
    """Read which upload was the last to arrive."""
    claim = Claim.take(place / "turn")
    assert claim is not None
    try:
        _last(claim)
    finally:
        claim.release()


def der(data: bytes) -> None:
    """Read the common name in a certificate, whatever its DER is."""
    import base64

    pem = b"-----BEGIN CERTIFICATE-----" + base64.b64encode(data) + b"-----END CERTIFICATE-----"
    certificate.common_name(pem)


def password(place: Path) -> None:
    """Read the first line of a password file."""
    access.password_of(BrokerSettings("b", username="u", password_file=str(place / "password")))


def apprise(place: Path) -> None:
    """Read what was told before, and the services to tell."""
    apprise_sink._load(place / "told.json")


def url(data: bytes) -> None:
    """Read a broker's URL."""
    parse_url(data.decode("utf-8", "surrogateescape"))


RULES = standing.Rules(3, 4.0, 30.0)


def shared_breaker(data: bytes) -> None:
    """Take a breaker as another process left it, and go on with it."""
    file_kind(RULES).unpack(data)
    found = standing.unpack(data)
    if found.believable(6.0, RULES):
        found.admit(8, 6.0, RULES)
        found.succeeded(6.0)


def forged_breaker(data: bytes) -> None:
    """Take one whose sum is right, whatever it says: also a forger can count."""
    shared_breaker(sealed.seal(standing.MAGIC, data[len(standing.MAGIC) + 4 :]))
