"""Which event begins what, and which ends it; one table each, so that nothing hides in code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.report.spans import Condition, Kind, Level

if TYPE_CHECKING:
    from collections.abc import Mapping

BAD, WARN, NOTE, UNSURE = Level.BAD, Level.WARN, Level.NOTE, Level.UNSURE

BEGINS: Mapping[str, Condition] = {
    "network.down": Condition(Kind.NETWORK, "down", BAD),
    "network.degraded": Condition(Kind.NETWORK, "degraded", WARN),
    "network.unknown": Condition(Kind.NETWORK, "unknown", UNSURE),
    "power.mains_lost": Condition(Kind.POWER, "on battery", BAD),
    "power.low": Condition(Kind.POWER, "battery low", BAD),
    "power.unknown": Condition(Kind.POWER, "unknown", UNSURE),
    "power.degraded": Condition(Kind.POWER, "needs somebody", WARN, "degraded"),
    "notice.spot": Condition(Kind.NOTICE, "to be taken back", BAD, "spot"),
    "notice.rebalance": Condition(Kind.NOTICE, "may be taken back", WARN, "rebalance"),
    "notice.maintenance": Condition(Kind.NOTICE, "maintenance", WARN, "maintenance"),
    "notice.shutdown": Condition(Kind.NOTICE, "shutdown", NOTE, "shutdown"),
    "hold.started": Condition(Kind.OPERATOR, "held by an operator", Level.HELD),
    "maintenance.started": Condition(Kind.OPERATOR, "planned work", NOTE, "maintenance"),
    "link.down": Condition(Kind.LINK, "down", WARN),
    "link.admin_down": Condition(Kind.LINK, "set down", NOTE),
    "link.removed": Condition(Kind.LINK, "gone", NOTE),
    "link.flapping": Condition(Kind.LINK, "flapping", WARN, "flapping"),
    "bond.down": Condition(Kind.BOND, "down", BAD),
    "bond.degraded": Condition(Kind.BOND, "degraded", WARN),
    "bond.path_dead": Condition(Kind.BOND, "nothing comes back", BAD, "path"),
    "bond.standby_dead": Condition(Kind.BOND, "standby dead", WARN, "standby"),
    "bond.flapping": Condition(Kind.BOND, "flapping", WARN, "flapping"),
    "uplink.dead": Condition(Kind.UPLINK, "dead", WARN),
    "path.path_dead": Condition(Kind.PATH, "no answer", WARN),
    "path.dns_dead": Condition(Kind.PATH, "does not resolve", WARN),
    "path.storage_dead": Condition(Kind.PATH, "storage unreachable", BAD),
    "metadata.gone": Condition(Kind.PATH, "metadata service gone", WARN),
    "nic.incident": Condition(Kind.NIC, "fault", WARN),
    "nic.incident_raised": Condition(Kind.NIC, "worse fault", BAD),
    "agent.stopping": Condition(Kind.AGENT, "stopped", NOTE),
}
"""The condition that an event begins; it replaces another one of its track."""

LEG_B = Condition(Kind.AGENT, "cut off from the fleet", WARN, "leg_b")
SENSOR = Condition(Kind.AGENT, "blind", WARN, "sensor")
AWAY = Condition(Kind.AGENT, "away", BAD)
HELD = {
    "uploads hold": Condition(Kind.UPLOADS, "held", Level.HELD),
    "uploads newest": Condition(Kind.UPLOADS, "newest only", NOTE),
    "training hold": Condition(Kind.TRAINING, "held", Level.HELD),
    "training asked": Condition(Kind.TRAINING, "held where the job asked", NOTE, "asked"),
    "training checkpoint": Condition(Kind.TRAINING, "asked to save", NOTE, "checkpoint"),
    "training stop": Condition(Kind.TRAINING, "asked to stop", BAD, "stop"),
}


@dataclass(frozen=True, slots=True)
class End:
    """What an event ends. ``unseen`` is what it was when its beginning was not seen.

    ``field`` of the event's data then tells for how many seconds.
    """

    kind: Kind
    track: str = ""
    unseen: Condition | None = None
    field: str = ""


ENDS: Mapping[str, End] = {
    "network.ok": End(Kind.NETWORK, "", None, "previous_s"),
    "power.restored": End(Kind.POWER, "", BEGINS["power.mains_lost"], "lasted_s"),
    "power.degraded_ended": End(Kind.POWER, "degraded"),
    "hold.ended": End(Kind.OPERATOR, "", BEGINS["hold.started"], "lasted_s"),
    "maintenance.ended": End(
        Kind.OPERATOR, "maintenance", BEGINS["maintenance.started"], "lasted_s"
    ),
    "link.up": End(Kind.LINK, "", BEGINS["link.down"], "previous_s"),
    "link.admin_up": End(Kind.LINK),
    "link.appeared": End(Kind.LINK),
    "link.steady": End(Kind.LINK, "flapping"),
    "bond.up": End(Kind.BOND),
    "bond.restored": End(Kind.BOND),
    "bond.path_alive": End(Kind.BOND, "path"),
    "bond.standby_alive": End(Kind.BOND, "standby"),
    "bond.steady": End(Kind.BOND, "flapping"),
    "uplink.alive": End(Kind.UPLINK, "", BEGINS["uplink.dead"], "previous_s"),
    "path.alive": End(Kind.PATH, "", BEGINS["path.path_dead"], "lasted_s"),
    "path.unknown": End(Kind.PATH, "", BEGINS["path.path_dead"], "lasted_s"),
    "metadata.reachable": End(Kind.PATH, "", None, ""),
    "metadata.unknown": End(Kind.PATH, "", None, ""),
    "nic.incident_closed": End(Kind.NIC, "", BEGINS["nic.incident"], "lasted_s"),
}

MARKS: Mapping[str, tuple[Kind, str]] = {
    "link.bounced": (Kind.LINK, "carrier went and came back between two looks"),
    "bond.failover": (Kind.BOND, "another member carries"),
    "bond.moved": (Kind.BOND, "the agent moved the bond"),
    "bond.move_failed": (Kind.BOND, "the bond could not be moved"),
    "bond.repaired": (Kind.BOND, "repaired"),
    "bond.repair_failed": (Kind.BOND, "a repair failed"),
    "uplink.switched": (Kind.UPLINK, "default traffic takes another uplink"),
    "uplink.switch_failed": (Kind.UPLINK, "the uplink could not be switched"),
    "notice.withdrawn": (Kind.NOTICE, "a notice was withdrawn"),
    "agent.started": (Kind.AGENT, "the agent started"),
    "agent.outbox_overflow": (Kind.AGENT, "events were lost"),
}
"""Events that are shown as one moment."""
