"""The state document: a :class:`~linkhold.model.NodeState` as JSON.

:mod:`linkhold.wire.stored` reads it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from linkhold.model import (
    Address,
    Alert,
    BondView,
    HostNetwork,
    Link,
    LinkHistory,
    Moment,
    NodeState,
)
from linkhold.wire.documents import SCHEMA, advice_document, dumps, rfc3339, stamp
from linkhold.wire.holds import holds_document
from linkhold.wire.incidents import kernel_log_document
from linkhold.wire.maintenance import maintenance_document
from linkhold.wire.power import deadline_document, notice_document, power_document
from linkhold.wire.probes import causes_document, metadata_document, probes_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.model import BondKeep, Identity, Uplinks, WayOut
    from linkhold.model.keepalive import Keepalive


class StateEncoder:
    """Encodes the states of one node, each as the document that docs/events.md describes.

    A node has tens of links of which one changes at a time: those that did not are not encoded
    again, so that news of a link costs the same on every node.
    """

    def __init__(self, identity: Identity) -> None:
        self._head = dumps(
            {
                "schema": SCHEMA,
                "site": identity.site,
                "node": identity.node,
                "machine_id": identity.machine_id,
                "boot_id": identity.boot_id,
                "session": identity.session,
                "session_mono_ns": identity.started.mono_ns,
            }
        )
        self._links: dict[int, _EncodedLink] = {}
        self._state: NodeState | None = None
        self._rest = b""

    def encode(
        self,
        state: NodeState,
        now: Moment,
        *,
        clock_synced: bool | None,
        agent: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Return the state document as JSON.

        ``clock_synced`` is None when the kernel does not say. ``agent`` replaces fields of the
        agent's health that are known only when the state is written (counters).
        """
        times = {"at": rfc3339(now.wall_s), "mono_ns": now.mono_ns, "clock_synced": clock_synced}
        if state is not self._state:
            self._state = state
            self._rest = self._encode_rest(state)
        health = dumps({**_fields(state.agent), **(agent or {})})
        parts = (self._head[:-1], b",", dumps(times)[1:-1], b",", self._rest)
        return b"".join((*parts, b',"agent":', health, b"}}"))

    def _encode_rest(self, state: NodeState) -> bytes:
        """Return all that a heartbeat leaves as it was; the agent counts on while it is quiet."""
        host = state.host or HostNetwork()
        return b"".join(
            (
                dumps(_changing(state))[1:-1],
                b',"detail":{"links":{',
                b",".join(self._encode_links(host, state.histories)),
                b"},",
                dumps(_detail(host, state))[1:-1],
            )
        )

    def _encode_links(
        self, host: HostNetwork, histories: Mapping[int, LinkHistory]
    ) -> Iterator[bytes]:
        known, self._links = self._links, {}
        for index, link in host.links.items():
            encoded = known.get(index)
            history = histories.get(index)
            if encoded is None or not encoded.is_of(link, history, host.addresses):
                text = dumps({link.name: _link(host, link, history)})[1:-1]
                encoded = _EncodedLink(link, history, host.addresses, text)
            self._links[index] = encoded
            yield encoded.text


@dataclass(frozen=True, slots=True)
class _EncodedLink:
    """A link as it was encoded, and the very objects it was encoded from."""

    link: Link
    history: LinkHistory | None
    addresses: frozenset[Address]
    text: bytes

    def is_of(self, link: Link, history: LinkHistory | None, addresses: frozenset[Address]) -> bool:
        return link is self.link and history is self.history and addresses is self.addresses


def _changing(state: NodeState) -> dict[str, Any]:
    return {
        "epoch": state.epoch,
        "network": state.network.value,
        "power": state.power.state.value,
        "notices": [notice_document(notice) for notice in state.notices],
        "deadline": deadline_document(state.deadline),
        **stamp("since", state.network_since),
        "cause": list(state.cause),
        "alerts": [_alert(alert) for alert in state.alerts],
        "holds": holds_document(state.holds),
        "maintenance": maintenance_document(state.maintenance),
        "advice": advice_document(state.advice),
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "fingerprint": alert.fingerprint,
        "type": alert.type,
        "severity": alert.severity.value,
        "subject": alert.subject,
        **stamp("since", alert.since),
        "text": alert.text,
    }


def _detail(host: HostNetwork, state: NodeState) -> dict[str, Any]:
    return {
        "bonds": _bonds(state),
        "paths": {_way_name(way): _way(way) for way in state.ways},
        "routes": [_fields(route) for route in sorted(host.routes)],
        "uplinks": _uplinks(state.uplinks),
        "keepalive": _keepalive(state.keepalive),
        "kernel_log": kernel_log_document(state.kernel_log),
        "beyond": causes_document(state.reach),
        "probes": probes_document(state.probes),
        "metadata": metadata_document(state.metadata),
        "power": power_document(state),
        "notices": {**_fields(state.notices_view), "missed": list(state.notices_view.missed)},
    }


PLAIN_FIELDS = (
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
    "parent",
    "vlan_id",
    "driver",
    "speed_mbps",
    "vf",
)


_plain = attrgetter(*PLAIN_FIELDS)


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a slotted dataclass; asdict() copies deeply and costs ten times it."""
    return {name: getattr(value, name) for name in value.__slots__}


def _link(host: HostNetwork, link: Link, history: LinkHistory | None) -> dict[str, Any]:
    document: dict[str, Any] = dict(zip(PLAIN_FIELDS, _plain(link), strict=True))
    if link.bond is not None:
        document["bond"] = _fields(link.bond)
    if link.port is not None:
        document["port"] = _fields(link.port)
    if history is not None:
        document |= stamp("since", history.since)
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


ABSENT = BondView("", 0, "", False, None, (), False, False)


def _bonds(state: NodeState) -> dict[str, Any]:
    """Return every bond of the host, and those of the configuration that are not there."""
    keeps = {keep.bond: keep for keep in state.keeps}
    views = {bond.name: bond for bond in state.bonds}
    absent = dict.fromkeys(sorted(keeps.keys() - views.keys()), ABSENT)
    return {
        name: {**_bond(bond), **_keep(keeps.get(name)), "there": bond is not ABSENT}
        for name, bond in {**views, **absent}.items()
    }


def _keep(keep: BondKeep | None) -> dict[str, Any]:
    if keep is None:
        return {"wanted": False, "applied": None, "drift": [], "conflict": None, "repair": None}
    return {
        "wanted": True,
        "wanted_members": keep.members,
        "applied": keep.applied,
        "drift": [_fields(drift) for drift in keep.drift],
        "conflict": _fields(keep.conflict) if keep.conflict else None,
        "repair": keep.repair or None,
    }


def _bond(bond: BondView) -> dict[str, Any]:
    return {
        "mode": bond.mode or None,
        "carrier": bond.carrier,
        "active": bond.active,
        "monitored": bond.monitored,
        "redundant": bond.redundant,
        "silent": bond.silent or None,
        "would": bond.would or None,
        "locked": bond.locked,
        "flapping": bond.flapping,
        "members": {
            member.name: {
                "good": member.good,
                "carrier": member.carrier,
                "mii": member.mii,
                "failures": member.failures,
                "path": member.path,
                "path_reason": member.path_reason or None,
            }
            for member in bond.members
        },
    }


def _uplinks(uplinks: Uplinks) -> dict[str, Any]:
    return {
        "links": {line.link: _fields(line) for line in uplinks.lines},
        "would": uplinks.would,
        "locked": uplinks.locked,
        "problem": uplinks.problem,
    }


def _keepalive(keepalive: Keepalive) -> dict[str, Any]:
    return {
        **_fields(keepalive),
        "wanted": _fields(keepalive.wanted) if keepalive.wanted else None,
        "present": _fields(keepalive.present) if keepalive.present else None,
        "drifts": [{**_fields(drift), **stamp("since", drift.since)} for drift in keepalive.drifts],
    }


def _way_name(way: WayOut) -> str:
    via = f" via {way.via}" if way.via else ""
    return f"{way.name}{via} on {way.link}"


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
