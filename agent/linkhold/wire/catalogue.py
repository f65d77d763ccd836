"""The closed catalogue of event types: what each one means and which data it carries.

The README prints this table; a test keeps both equal. An event of another type, or with other
data, is a bug: :func:`linkhold.wire.check_event` finds it in tests.

Every event may also carry what :data:`COMMON` lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class EventType:
    """What an event type means to a reader, and the names of its data fields."""

    meaning: str
    fields: tuple[str, ...] = ()


FIELDS: Mapping[str, str] = {
    "previous_s": "seconds that the state before this one lasted",
    "lasted_s": "seconds from beginning to end",
    "ups": "how often the kernel saw carrier come, since the link was made",
    "downs": "how often the kernel saw carrier go, since the link was made",
    "bounces": "how often it went and came back besides, unseen",
}

COMMON: Mapping[str, str] = {
    "initial": "true: first sight of the subject, not a change",
    "while_absent": "true: found at the start of the agent by comparison with what was stored",
    "resynced": "true: found by comparison after the kernel dropped messages",
}

CATALOGUE: Mapping[str, EventType] = {
    "link.up": EventType("a link has carrier", ("previous_s", "ups", "downs", "bounces")),
    "link.down": EventType("a link lost carrier", ("previous_s", "ups", "downs", "bounces")),
    "link.bounced": EventType(
        "carrier went and came back between two looks; the kernel's counters show it",
        ("carrier", "ups", "downs", "bounces"),
    ),
    "link.admin_up": EventType("somebody set the link up", ()),
    "link.admin_down": EventType("somebody set the link down", ()),
    "link.appeared": EventType("a new interface", ("kind", "mac", "driver")),
    "link.removed": EventType("an interface is gone", ("kind", "mac")),
    "link.renamed": EventType("an interface has a new name", ("previous",)),
    "link.changed": EventType(
        "MAC, MTU, speed or driver of a link changed", ("field", "previous", "value")
    ),
    "link.flapping": EventType("a link was lost too often in a short time", ("downs", "window_s")),
    "link.steady": EventType("a flapping link has been quiet again", ("quiet_s",)),
    "bond.up": EventType("a bond has carrier", ("active", "members")),
    "bond.down": EventType("no member of a bond carries", ("members",)),
    "bond.degraded": EventType(
        "a bond carries with fewer members than it has", ("active", "members", "lost")
    ),
    "bond.restored": EventType("every member of a bond carries again", ("active", "members")),
    "bond.failover": EventType("another member carries now", ("previous", "active")),
    "bond.member_added": EventType("an interface joined a bond", ("member",)),
    "bond.member_removed": EventType("an interface left a bond", ("member",)),
    "bond.unmonitored": EventType(
        "the kernel watches no member of this bond: it will never fail over", ("mode",)
    ),
    "address.added": EventType("an address of a watched link", ("address",)),
    "address.removed": EventType("an address of a watched link is gone", ("address",)),
    "route.default_added": EventType("a default route", ("family", "gateway", "metric")),
    "route.default_removed": EventType("a default route is gone", ("family", "gateway", "metric")),
    "network.ok": EventType("a way out carries", ("previous", "previous_s", "cause")),
    "network.degraded": EventType(
        "a way out carries, but a spare is lost", ("previous", "previous_s", "cause")
    ),
    "network.down": EventType("no way out carries", ("previous", "previous_s", "cause")),
    "network.unknown": EventType(
        "no way out is known to judge by", ("previous", "previous_s", "cause")
    ),
    "power.changed": EventType(
        "the power state changed", ("previous", "power", "runtime_s", "source")
    ),
    "notice.seen": EventType("a notice appeared", ("kind", "action", "deadline", "source")),
    "notice.withdrawn": EventType("a notice is gone", ("kind", "action", "source")),
    "advice.changed": EventType(
        "what training should do changed",
        ("uploads", "training", "holds", "checkpoint", "stop", "cause"),
    ),
    "alert.opened": EventType(
        "a person should know", ("fingerprint", "alert", "severity", "text", "since_s")
    ),
    "alert.closed": EventType("an alert ended", ("fingerprint", "alert", "text", "lasted_s")),
    "agent.started": EventType(
        "the agent started", ("version", "mode", "previous_session", "previous_seq", "absent_s")
    ),
    "agent.stopping": EventType("the agent ends as asked", ("reason",)),
    "agent.resynced": EventType(
        "the kernel dropped messages; everything was read again and compared", ("reason", "changes")
    ),
    "agent.config_reloaded": EventType("a new configuration is in use", ("file",)),
    "agent.config_rejected": EventType(
        "a new configuration was refused, the old one stays", ("file", "mistakes")
    ),
    "agent.sensor": EventType("the link sensor is blind, or sees again", ("status", "reason")),
    "agent.leg_a": EventType("the node's own broker", ("status", "reason")),
    "agent.leg_b": EventType("the connection to the fleet's broker", ("status", "reason")),
    "agent.outbox": EventType("the health of the outbox", ("status", "reason")),
    "agent.outbox_overflow": EventType(
        "the outbox was full and events were dropped", ("count", "first", "last")
    ),
    "agent.event_parked": EventType(
        "the fleet's broker refused an event; it is kept", ("id", "reason")
    ),
    "agent.replayed": EventType(
        "events were sent again on request", ("request", "count", "missing", "first", "last")
    ),
}
