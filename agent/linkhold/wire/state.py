"""The state document: a :class:`~linkhold.model.NodeState` as JSON, and back after a restart.

Reading back is what lets a restarted agent report what happened while it was away: parsing the
``detail`` of a rendered state gives an equal host network.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from linkhold.model import (
    Address,
    Alert,
    BondOptions,
    BondPort,
    DefaultRoute,
    HostNetwork,
    Link,
    LinkHistory,
    Moment,
    Network,
    NodeState,
    Severity,
    WayOut,
    WireError,
)
from linkhold.wire.documents import SCHEMA, advice_document, from_rfc3339, rfc3339

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model import BondView, Identity, Notice


def state_document(
    identity: Identity, state: NodeState, now: Moment, *, clock_synced: bool | None
) -> dict[str, Any]:
    """Return the state document as design.md has it, ready for JSON.

    ``clock_synced`` is None when the kernel does not say.
    """
    return {
        "schema": SCHEMA,
        "site": identity.site,
        "node": identity.node,
        "machine_id": identity.machine_id,
        "boot_id": identity.boot_id,
        "session": identity.session,
        "session_mono_ns": identity.started.mono_ns,
        "epoch": state.epoch,
        "at": rfc3339(now.wall_s),
        "mono_ns": now.mono_ns,
        "clock_synced": clock_synced,
        "network": state.network.value,
        "power": state.power.state.value,
        "notices": [_notice(notice) for notice in state.notices],
        **_stamp("since", state.network_since),
        "cause": list(state.cause),
        "detail": _detail(state),
        "alerts": [_alert(alert) for alert in state.alerts],
        "advice": advice_document(state.advice),
    }


def _stamp(name: str, moment: Moment) -> dict[str, Any]:
    return {name: rfc3339(moment.wall_s), f"{name}_mono_ns": moment.mono_ns}


def _notice(notice: Notice) -> dict[str, Any]:
    deadline = notice.deadline
    return {
        "kind": notice.kind,
        "action": notice.action,
        "source": notice.source,
        "deadline": rfc3339(deadline.wall_s) if deadline else None,
        "deadline_mono_ns": deadline.mono_ns if deadline else None,
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "fingerprint": alert.fingerprint,
        "type": alert.type,
        "severity": alert.severity.value,
        "subject": alert.subject,
        **_stamp("since", alert.since),
        "text": alert.text,
    }


def _detail(state: NodeState) -> dict[str, Any]:
    host = state.host or HostNetwork()
    return {
        "links": {
            link.name: _link(host, link, state.histories.get(index))
            for index, link in host.links.items()
        },
        "bonds": {bond.name: _bond(bond) for bond in state.bonds},
        "paths": [_way(way) for way in state.ways],
        "routes": [_fields(route) for route in sorted(host.routes)],
        "power": {
            "runtime_s": state.power.runtime_s,
            "source": state.power.source,
            "confirmed": state.power.confirmed,
        },
        "agent": _fields(state.agent),
    }


_PLAIN = (
    "index",
    "kind",
    "hw_type",
    "admin_up",
    "carrier",
    "operstate",
    "mac",
    "perm_mac",
    "mtu",
    "master",
    "carrier_ups",
    "carrier_downs",
    "bus_path",
    "driver",
    "speed_mbps",
)


_plain = attrgetter(*_PLAIN)


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a slotted dataclass; asdict() copies deeply and costs ten times it."""
    return {name: getattr(value, name) for name in value.__slots__}


def _link(host: HostNetwork, link: Link, history: LinkHistory | None) -> dict[str, Any]:
    document: dict[str, Any] = dict(zip(_PLAIN, _plain(link), strict=True))
    if link.bond is not None:
        document["bond"] = _fields(link.bond)
    if link.port is not None:
        document["port"] = _fields(link.port)
    if history is not None:
        document |= _stamp("since", history.since)
        document |= {"seen_up": history.seen_up, "flapping": history.flapping}
        document["downs"] = list(history.downs)
    document["addresses"] = [
        {
            "family": address.family,
            "address": address.address,
            "prefix_len": address.prefix_len,
            "scope": address.scope,
            "tentative": address.tentative,
        }
        for address in sorted(host.addresses)
        if address.index == link.index
    ]
    return document


def _bond(bond: BondView) -> dict[str, Any]:
    return {
        "mode": bond.mode,
        "carrier": bond.carrier,
        "active": bond.active,
        "monitored": bond.monitored,
        "redundant": bond.redundant,
        "members": {
            member.name: {
                "good": member.good,
                "carrier": member.carrier,
                "mii": member.mii,
                "failures": member.failures,
            }
            for member in bond.members
        },
    }


def _way(way: WayOut) -> dict[str, Any]:
    return {
        "name": way.name,
        "family": way.family,
        "index": way.index,
        "link": way.link,
        "via": way.via,
        "carries": way.carries,
        "obstacle": way.obstacle or None,
    }


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
            ways=tuple(_parse_way(way) for way in document["detail"]["paths"]),
            network=Network(document["network"]),
            network_since=_parse_stamp(document, "since"),
            alerts=tuple(_parse_alert(alert) for alert in document["alerts"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WireError(f"stored state: {type(error).__name__}: {error}") from error


def _parse_stamp(document: Mapping[str, Any], name: str) -> Moment:
    return Moment(int(document[f"{name}_mono_ns"]), from_rfc3339(document[name]))


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
        **{field: value[field] for field in _PLAIN},
        bond=BondOptions(**bond) if bond else None,
        port=BondPort(**port) if port else None,
    )


def _parse_history(value: Mapping[str, Any]) -> LinkHistory:
    return LinkHistory(
        since=_parse_stamp(value, "since"),
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


def _parse_alert(value: Mapping[str, Any]) -> Alert:
    return Alert(
        fingerprint=str(value["fingerprint"]),
        type=str(value["type"]),
        severity=Severity(value["severity"]),
        subject=str(value["subject"]),
        since=_parse_stamp(value, "since"),
        text=str(value["text"]),
    )
