"""The configuration: schema, strict reading of YAML, the printed default file."""

from linkhold.config.identity import node_name
from linkhold.config.loader import DEFAULT_PATH, load
from linkhold.config.printer import default_file, readme_table
from linkhold.config.settings import (
    AlertSettings,
    BondSettings,
    BrokerSettings,
    Detect,
    LinkSettings,
    MacPolicy,
    Mode,
    MqttSettings,
    OutboxSettings,
    PolicySettings,
    Role,
    Settings,
    TlsSettings,
    UplinkPolicySettings,
    UplinkSettings,
    WayOutSettings,
)

__all__ = [
    "DEFAULT_PATH",
    "AlertSettings",
    "BondSettings",
    "BrokerSettings",
    "Detect",
    "LinkSettings",
    "MacPolicy",
    "Mode",
    "MqttSettings",
    "OutboxSettings",
    "PolicySettings",
    "Role",
    "Settings",
    "TlsSettings",
    "UplinkPolicySettings",
    "UplinkSettings",
    "WayOutSettings",
    "default_file",
    "load",
    "node_name",
    "readme_table",
]
