"""The closed catalogue of event types: what each one means and which data it carries.

docs/events.md prints this table; a test keeps both equal. An event of another type, or with other
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
    "silence_s": "seconds since its last answer; null when it never answered",
    "rtt_ms": "milliseconds from request to answer",
    "took_ms": "milliseconds from the decision until the routes were seen in place",
    "ups": "how often the kernel saw carrier come, since the link was made",
    "downs": "how often the kernel saw carrier go, since the link was made",
    "bounces": "how often it went and came back besides, unseen",
    "by": "what points at who did it; empty when nothing does",
    "detection_s": "seconds until a lost member is noticed at the latest",
    "repair": "what is done about it, or what a person can do",
    "retry_s": "seconds until the next try",
    "took_s": "seconds from the start of the repair until it was verified",
    "because": "what else explains it; empty when nothing does",
    "partial": "something else shows that there is a way all the same",
    "never": "it has not answered since the start, so perhaps it never did",
    "would": "the member that would carry now in mode enforce",
    "verdict": "alive, or unknown when no other member has answers either",
}

COMMON: Mapping[str, str] = {
    "initial": "true: first sight of the subject, not a change",
    "while_absent": "true: found at the start of the agent by comparison with what was stored",
    "resynced": "true: found by comparison after the kernel dropped messages",
    "ordered": "the command of linkhold that did it: apply, remove, test ...",
}

BATTERY = ("source", "confirmed", "runtime_s", "deadline")
NOTICE = ("action", "source", "deadline", "planned")
INCIDENT = ("class", "cause", "interface", "address", "driver", "lines", "reason")

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
    "bond.moved": EventType(
        "the agent made another member the active one", ("previous", "active", "reason")
    ),
    "bond.move_failed": EventType(
        "the kernel refused to make another member the active one",
        ("previous", "active", "reason", "error"),
    ),
    "bond.path_dead": EventType(
        "nothing comes back through the active member, though its link is up",
        ("member", "reason", "would"),
    ),
    "bond.path_alive": EventType(
        "the path that died while it carried is no longer known dead",
        ("member", "verdict", "reason"),
    ),
    "bond.standby_dead": EventType(
        "nothing comes back through a standby, though its link is up", ("member", "reason")
    ),
    "bond.standby_alive": EventType(
        "the path of a standby is no longer known dead", ("member", "verdict", "reason")
    ),
    "bond.target_silent": EventType(
        "the targets of the probes answer through no member: not the bond's fault", ("reason",)
    ),
    "bond.target_answers": EventType("a target of the probes is heard again", ("reason",)),
    "bond.locked": EventType(
        "probes moved the active member as often as they may; it stays for a minute", ()
    ),
    "bond.unlocked": EventType("probes may move the active member again", ()),
    "bond.flapping": EventType(
        "the active member changed too often in a short time", ("changes", "window_s")
    ),
    "bond.steady": EventType("a flapping bond has been quiet again", ("quiet_s",)),
    "bond.member_added": EventType("an interface joined a bond", ("member",)),
    "bond.member_removed": EventType("an interface left a bond", ("member",)),
    "bond.unmonitored": EventType(
        "the kernel watches no member of this bond: it will never fail over", ("mode",)
    ),
    "bond.slow_monitoring": EventType(
        "a lost member is noticed only after seconds", ("option", "detection_s")
    ),
    "bond.vf_mac": EventType(
        "the bond's MAC goes onto virtual functions, whose NIC may drop it after a failover",
        ("members",),
    ),
    "bond.not_applied": EventType("a configured bond was never made on this host", ("hint",)),
    "bond.drift": EventType(
        "a bond is not as the configuration wants it",
        ("kind", "subject", "wanted", "seen", "by", "repair"),
    ),
    "bond.drift_ended": EventType(
        "a difference is gone, by whomever", ("kind", "subject", "lasted_s")
    ),
    "bond.repaired": EventType("the agent repaired a bond and verified it", ("what", "took_s")),
    "bond.repair_failed": EventType(
        "a repair failed and was undone; the next try is in `retry_s`, null for none",
        ("reason", "retry_s"),
    ),
    "bond.config_conflict": EventType(
        "somebody undid a repair twice: the agent repairs this bond no more", ("what", "by")
    ),
    "bond.conflict_ended": EventType("the bond is repaired again", ("reason", "lasted_s")),
    "uplink.dead": EventType("an uplink does not answer or cannot carry", ("reason", "silence_s")),
    "uplink.alive": EventType("an uplink answers", ("rtt_ms", "previous_s")),
    "uplink.switched": EventType(
        "default traffic takes another uplink; the host's own routes stay as they are",
        ("previous", "active", "reason", "took_ms", "silence_s"),
    ),
    "uplink.switch_failed": EventType(
        "the kernel refused the routes of another uplink", ("previous", "active", "reason")
    ),
    "uplink.would_switch": EventType(
        "mode observe: default traffic would take another uplink", ("previous", "active", "reason")
    ),
    "uplink.locked": EventType(
        "uplinks were switched too often: the one in use stays", ("switches", "until_s", "reason")
    ),
    "keepalive.drift": EventType(
        "a sysctl of keepalive is not as the configuration wants it",
        ("key", "wanted", "seen", "by"),
    ),
    "keepalive.repaired": EventType(
        "sysctls were written and read back; `values` has old and new by name", ("values",)
    ),
    "keepalive.repair_failed": EventType("a sysctl could not be written", ("reason",)),
    "keepalive.config_conflict": EventType(
        "somebody changed a sysctl back twice: the agent writes it no more",
        ("key", "wanted", "seen", "by"),
    ),
    "keepalive.unprotected": EventType(
        "connections of a training job that no keepalive watches",
        ("job", "unprotected", "connections", "text"),
    ),
    "path.path_dead": EventType(
        "a gateway or target does not answer", ("text", "because", "partial", "never")
    ),
    "path.dns_dead": EventType(
        "a resolver does not resolve", ("text", "because", "partial", "never")
    ),
    "path.storage_dead": EventType(
        "the storage that uploads go to cannot be reached",
        ("text", "because", "partial", "never"),
    ),
    "path.alive": EventType("it answers, after it did not", ("was", "lasted_s")),
    "path.unknown": EventType(
        "nobody knows any more whether it answers: it cannot be asked, or is asked no longer",
        ("was", "lasted_s"),
    ),
    "metadata.reachable": EventType(
        "the cloud's metadata service answers", ("vendor", "reason", "previous_s")
    ),
    "metadata.gone": EventType(
        "the cloud's metadata service does not answer", ("vendor", "reason", "previous_s")
    ),
    "metadata.unknown": EventType(
        "what answers in the place of the metadata service makes no sense",
        ("vendor", "reason", "previous_s"),
    ),
    "nic.incident": EventType("the kernel's log tells of a fault of a NIC", INCIDENT),
    "nic.incident_raised": EventType("a fault of a NIC is worse than it seemed", INCIDENT),
    "nic.incident_closed": EventType(
        "a fault of a NIC is over, for this reason", (*INCIDENT, "lasted_s")
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
        "no way out is known to judge by, or no gateway has answered since the start",
        ("previous", "previous_s", "cause"),
    ),
    "power.mains_lost": EventType("the node runs on battery", BATTERY),
    "power.low": EventType(
        "the battery is nearly empty, or a shutdown is forced", (*BATTERY, "forced_shutdown")
    ),
    "power.restored": EventType("mains are back and stayed", ("source", "lasted_s")),
    "power.unknown": EventType("no source tells whether mains are there", ("source",)),
    "power.degraded": EventType("the supply of power needs somebody", ("reasons",)),
    "power.degraded_ended": EventType("nothing is wrong with the supply any more", ()),
    "notice.spot": EventType("this machine will be taken back", NOTICE),
    "notice.rebalance": EventType("this machine may be taken back soon", NOTICE),
    "notice.maintenance": EventType("somebody will pause or end this machine", NOTICE),
    "notice.shutdown": EventType("somebody on this machine shuts it down", NOTICE),
    "notice.withdrawn": EventType("a notice is gone", ("kind", "action", "source")),
    "advice.changed": EventType(
        "what training should do changed",
        ("uploads", "training", "holds", "checkpoint", "stop", "cause"),
    ),
    "hold.started": EventType(
        "an operator holds uploads or training of the node, or of one job",
        ("uploads", "training", "why", "by", "until", "renewed"),
    ),
    "hold.ended": EventType(
        "a hold of an operator ended", ("uploads", "training", "by", "reason", "lasted_s")
    ),
    "maintenance.started": EventType(
        "planned work is announced: nobody is paged until its end",
        ("why", "by", "until", "renewed"),
    ),
    "maintenance.ended": EventType(
        "planned work is over: people are paged again", ("by", "reason", "lasted_s")
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
