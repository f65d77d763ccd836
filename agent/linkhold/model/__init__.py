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
    LinkholdError,
    StoreError,
    Unavailable,
    WireError,
)
from linkhold.model.network import (
    Address,
    BondMember,
    BondOptions,
    BondPort,
    BondView,
    DefaultRoute,
    HostNetwork,
    Link,
    LinkHistory,
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

__all__ = [
    "Address",
    "Advice",
    "AgentHealth",
    "Alert",
    "AlreadyRunning",
    "BondMember",
    "BondOptions",
    "BondPort",
    "BondView",
    "BrokerError",
    "CheckpointRequest",
    "ConfigError",
    "DefaultRoute",
    "Event",
    "GiveUp",
    "HostNetwork",
    "Identity",
    "Link",
    "LinkHistory",
    "LinkholdError",
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
    "Uploads",
    "WayOut",
    "WireError",
]
