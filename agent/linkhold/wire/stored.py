"""A state document read back after a restart, to tell what happened while nobody looked.

Parsing what was encoded gives an equal host network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.model import (
    Address,
    Alert,
    BondKeep,
    BondOptions,
    BondPort,
    Conflict,
    DefaultRoute,
    Drift,
    HostNetwork,
    Link,
    LinkHistory,
    Network,
    NodeState,
    Severity,
    Uplinks,
    UplinkView,
    WayOut,
    WireError,
)
from linkhold.wire.documents import SCHEMA, parse_advice, parse_stamp
from linkhold.wire.holds import parse_holds
from linkhold.wire.incidents import parse_kernel_log
from linkhold.wire.maintenance import parse_maintenance
from linkhold.wire.power import parse_deadline, parse_notice, parse_power, parse_power_view
from linkhold.wire.probes import parse_causes, parse_metadata, parse_probes
from linkhold.wire.reading import flaw
from linkhold.wire.state import PLAIN_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_node_state(document: Mapping[str, Any]) -> NodeState:
    """Return the state that ``document`` was rendered from, as far as a restart needs it.

    Raises :class:`WireError` when the document is damaged or from another schema.
    """
    if document.get("schema") != SCHEMA:
        raise WireError(f"state of schema {document.get('schema')!r}, not {SCHEMA}")
    try:
        links = document["detail"]["links"]
        return NodeState(
            epoch=0,
            host=_parse_host(document["detail"]),
            histories={int(v["index"]): _parse_history(v) for v in links.values()},
            ways=tuple(_parse_way(way) for way in document["detail"]["paths"].values()),
            uplinks=_parse_uplinks(document["detail"].get("uplinks")),
            reach=parse_causes(document["detail"].get("beyond")),
            probes=parse_probes(document["detail"].get("probes")),
            metadata=parse_metadata(document["detail"].get("metadata")),
            kernel_log=parse_kernel_log(document["detail"].get("kernel_log")),
            keeps=tuple(
                _parse_keep(name, bond)
                for name, bond in document["detail"]["bonds"].items()
                if bond.get("wanted")
            ),
            network=Network(document["network"]),
            network_since=parse_stamp(document, "since"),
            power=parse_power(document["power"], document["detail"]["power"]),
            power_since=parse_stamp(document["detail"]["power"], "since"),
            power_view=parse_power_view(document["detail"]["power"]),
            notices=tuple(parse_notice(notice) for notice in document["notices"]),
            deadline=parse_deadline(document.get("deadline")),
            holds=parse_holds(document.get("holds")),
            maintenance=parse_maintenance(document.get("maintenance")),
            advice=parse_advice(document["advice"]),
            alerts=tuple(_parse_alert(alert) for alert in document["alerts"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WireError(f"stored state: {flaw(error)}") from error


def _parse_host(detail: Mapping[str, Any]) -> HostNetwork:
    links = {int(v["index"]): _parse_link(name, v) for name, v in detail["links"].items()}
    addresses = frozenset(
        Address(index=int(v["index"]), **address)
        for v in detail["links"].values()
        for address in v["addresses"]
    )
    routes = frozenset(DefaultRoute(**route) for route in detail["routes"])
    return HostNetwork(links, addresses, routes)


def _parse_link(name: str, value: Mapping[str, Any]) -> Link:
    bond, port = value.get("bond"), value.get("port")
    return Link(
        name=name,
        **{field: value[field] for field in PLAIN_FIELDS},
        bond=BondOptions(**bond) if bond else None,
        port=BondPort(**port) if port else None,
    )


def _parse_history(value: Mapping[str, Any]) -> LinkHistory:
    return LinkHistory(
        since=parse_stamp(value, "since"),
        seen_up=bool(value["seen_up"]),
        flapping=bool(value["flapping"]),
        downs=tuple(int(time) for time in value["downs"]),
    )


def _parse_way(value: Mapping[str, Any]) -> WayOut:
    return WayOut(
        name=str(value["name"]),
        family=str(value["family"]),
        index=int(value["index"]),
        link=str(value["link"]),
        via=str(value["via"]),
        obstacle=str(value["obstacle"] or ""),
    )


def _parse_uplinks(value: Mapping[str, Any] | None) -> Uplinks:
    """Return the uplinks; none in what an agent before them stored."""
    if not value:
        return Uplinks()
    lines = tuple(UplinkView(**line) for line in value["links"].values())
    return Uplinks(lines, str(value["would"]), str(value["locked"]), str(value["problem"]))


def _parse_keep(name: str, value: Mapping[str, Any]) -> BondKeep:
    conflict = value["conflict"]
    return BondKeep(
        bond=name,
        applied=bool(value["applied"]),
        members=int(value["wanted_members"]),
        drift=tuple(Drift(**drift) for drift in value["drift"]),
        conflict=Conflict(**conflict) if conflict else None,
        repair=str(value["repair"] or ""),
    )


def _parse_alert(value: Mapping[str, Any]) -> Alert:
    return Alert(
        fingerprint=str(value["fingerprint"]),
        type=str(value["type"]),
        severity=Severity(value["severity"]),
        subject=str(value["subject"]),
        since=parse_stamp(value, "since"),
        text=str(value["text"]),
    )
