"""Reports of diagnoses on leg B: refused, late, or too large for a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from linkhold.legs.fleet_diagnose import Report
from support.broker import Broker, Collector, wait_until
from support.fleet import PREFIX, Node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DIAG = f"{PREFIX}/diag/#"


def report(identity: str, told: list[str], **document: Any) -> Report:
    """Return a report whose outcome is kept in ``told``."""
    return Report(identity, {"schema": 1, "id": identity, **document}, told.append)


def test_a_report_waits_for_the_broker_and_arrives_once(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """Made while the broker is away, or killed before it answers: sent again until it answers."""
    broker = brokers("persistence true").start()
    node = nodes(broker.port).start()
    node.wait_for("up")
    broker.kill()
    told: list[str] = []
    assert node.leg.publish_report(report("r1", told))
    node.wait_for("down")
    broker.start()
    heard = collect(broker.port, DIAG)
    wait_until(lambda: told, 5)
    if told == ["nobody is subscribed"]:  # it was faster than the subscriber
        assert node.leg.publish_report(report("r2", told))
        wait_until(lambda: len(told) == 2, 5)

    wait_until(lambda: heard.messages, 5)
    assert told[-1] == ""
    assert len(heard.messages) == 1
    assert not heard.messages[0].retained
    assert node.count("reports") == len(told)


def test_a_report_that_may_not_be_published_is_said(
    brokers: Callable[..., Broker],
    nodes: Callable[..., Node],
    tmp_path: Path,
) -> None:
    """The leg stays up, says so in its status, and the report is not tried again."""
    acl = tmp_path / "acl"
    names = ("state", "status", "birth", "event/#")
    acl.write_text("".join(f"topic write {PREFIX}/{name}\n" for name in names))
    broker = brokers(f"acl_file {acl}").start()
    node = nodes(broker.port).start()
    node.wait_for("up")
    told: list[str] = []
    node.leg.publish_report(report("r1", told))

    wait_until(lambda: told, 5)
    assert "uthori" in told[0]
    node.wait_for("up", "report refused")
    assert (node.count("reports"), node.count("reports_refused")) == (1, 1)


def test_a_report_fits_the_broker(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """A broker that takes 20 kB gets so much: the rest is cut, and the report says so."""
    broker = brokers("max_packet_size 20000").start()
    heard = collect(broker.port, DIAG)
    node = nodes(broker.port).start()
    node.wait_for("up")
    told: list[str] = []
    rows = [{"text": "x" * 90} for _ in range(3000)]
    node.leg.publish_report(report("r1", told, state="down", evidence=rows))

    wait_until(lambda: told, 5)
    wait_until(lambda: heard.messages, 5)
    payload = heard.messages[0].payload
    found = json.loads(payload)
    assert told == [""]
    assert 5000 < len(payload) < 20000
    assert found["state"] == "down"
    assert set(found["cut"]) == {"evidence"}
    assert node.count("losses") == 0
