"""Files as linkhold and people write them."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

from fuzz.scratch import folder
from linkhold.actuators.journal import boot_id
from linkhold.client.retry import standing, window
from linkhold.client.spool import manifest
from linkhold.config.settings import OutboxSettings
from linkhold.store.outbox import Stored
from linkhold.store.outbox_file import open_store
from support.journals import change
from support.outbox import entries

if TYPE_CHECKING:
    from collections.abc import Sequence


CONFIG = (
    b"mode: observe\nnode: n1\nsite: lab\nbonds:\n  bond0:\n    members: [eth0, eth1]\n",
    (
        b"mqtt:\n  fleet:\n    - host: broker.example\n      username: n1\n"
        b"      password_file: /etc/x\n      tls: {ca: /etc/ca.pem}\n"
        b"paths:\n  targets: [{name: s, tcp: 'nas.example:2049'}]\n"
    ),
    b"# nothing\n---\nkeepalive: {}\n",
)


RELAY = (b"brokers:\n  - host: a.example\nalertmanagers:\n  - url: http://am.example:9093\n",)


@cache
def outboxes() -> Sequence[bytes]:
    """Return outboxes: one with events, and an empty file."""
    with folder() as place:
        opened = open_store(place, OutboxSettings())
        assert opened.outbox is not None
        opened.outbox.write([Stored(one.seq, one) for one in entries(1, 6)], b"{}")
        opened.outbox.close()
        return [(place / "outbox.db").read_bytes(), b""]


def changes() -> Sequence[bytes]:
    """Return journals of changes, unfinished and committed."""
    done = change(state="committed", record={"members": [], "options": {}, "persist": "linkhold"})
    return [json.dumps(one).encode() for one in (change(), done)]


RECORD = {"members": ["eth0", "eth1"], "options": {"mode": 1}, "persist": "linkhold", "at": 1.0}


def keepalives() -> Sequence[bytes]:
    """Return records of sysctls that were changed."""
    pair = {"tcp_keepalive_time": {"found": 7200, "written": 120}}
    names = {"4026531840": {"name": "host", "keys": pair}}
    return [json.dumps({"boot_id": boot_id(), "namespaces": names}).encode()]


def covers() -> Sequence[bytes]:
    """Return records of sockets that were covered."""
    row = [1, 2, 3, 7200, 75, 9, 120, 60, 127]
    return [json.dumps({"boot_id": boot_id(), "sockets": [row, row]}).encode()]


def manifests() -> Sequence[bytes]:
    """Return what entries of the spool say of themselves."""
    one = manifest.File("", 3, "a" * 64)
    plain = manifest.Manifest("c", "c.pt", False, (one,), 1.0, "s3://b/c")
    whole = manifest.Manifest(
        "d", "d", True, (manifest.File("x/y", 3, "b" * 64),), 1.0, None, {"a": {"b": 1}}
    )
    return [manifest.encode(plain), manifest.encode(whole)]


@cache
def certificates() -> Sequence[bytes]:
    """Return certificates as a fleet's CA makes them."""
    import trustme

    authority = trustme.CA()
    made = authority.issue_cert("n1.example", common_name="n1")
    return [made.cert_chain_pems[0].bytes()]


@cache
def ders() -> Sequence[bytes]:
    """Return the DER of certificates."""
    import base64

    return [base64.b64decode(b"".join(pem.split(b"\n")[1:-2])) for pem in certificates()]


def budgets() -> Sequence[bytes]:
    """Return budgets of retries."""
    return [window.pack((1, 2, 3)), window.pack(())]


def breakers() -> Sequence[bytes]:
    """Return breakers: closed, open, and with a probe under way."""
    states = (
        standing.Standing(),
        standing.Standing(3, 1, 5.0),
        standing.Standing(3, 2, 5.0, 7, 9.0),
    )
    return [standing.pack(one) for one in states]


def turns() -> Sequence[bytes]:
    """Return the names of uploads."""
    return [b"01234567890123456789-12-abcdef"]


def documents(*found: object) -> Sequence[bytes]:
    """Return documents as bytes."""
    return [json.dumps(one).encode() for one in found]
