"""Frozen values that every other part of linkhold speaks in, and the error tree.

Nothing here does input or output, and nothing here imports another part of linkhold.
"""

from linkhold.model.clock import (
    Moment,
)
from linkhold.model.errors import (
    AlreadyRunning,
    BrokerError,
    ConfigError,
    GiveUp,
    HostError,
    LinkholdError,
    StoreError,
    Unavailable,
    WireError,
)
from linkhold.model.keeping import (
    BondKeep,
    Conflict,
    Drift,
)
from linkhold.model.network import (
    Address,
    BondMember,
    BondOptions,
    BondPaths,
    BondPort,
    BondView,
    DefaultRoute,
    HostNetwork,
    Link,
    LinkHistory,
    MemberPath,
    WayOut,
)
from linkhold.model.node import (
    Advice,
    AgentHealth,
    Alert,
    CheckpointRequest,
    Event,
    Identity,
    Network,
    NodeState,
    Notice,
    Power,
    PowerState,
    Severity,
    StopRequest,
    Training,
    Uploads,
)
from linkhold.model.uplinks import (
    Uplinks,
    UplinkView,
)

__all__ = [
    "Address",
    "Advice",
    "AgentHealth",
    "Alert",
    "AlreadyRunning",
    "BondKeep",
    "BondMember",
    "BondOptions",
    "BondPaths",
    "BondPort",
    "BondView",
    "BrokerError",
    "CheckpointRequest",
    "ConfigError",
    "Conflict",
    "DefaultRoute",
    "Drift",
    "Event",
    "GiveUp",
    "HostError",
    "HostNetwork",
    "Identity",
    "Link",
    "LinkHistory",
    "LinkholdError",
    "MemberPath",
    "Moment",
    "Network",
    "NodeState",
    "Notice",
    "Power",
    "PowerState",
    "Severity",
    "StopRequest",
    "StoreError",
    "Training",
    "Unavailable",
    "UplinkView",
    "Uplinks",
    "Uploads",
    "WayOut",
    "WireError",
]
