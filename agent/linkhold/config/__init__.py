"""The configuration: schema, strict reading of YAML, the printed default file."""

from linkhold.config.brokers import BrokerSettings, TlsSettings
from linkhold.config.identity import node_name
from linkhold.config.loader import DEFAULT_PATH, DEFAULT_RELAY_PATH, load, load_relay
from linkhold.config.metrics import MetricsSettings
from linkhold.config.printer import default_file, readme_table
from linkhold.config.relay import RelaySettings
from linkhold.config.settings import (
    AlertSettings,
    BondSettings,
    Detect,
    LinkSettings,
    MacPolicy,
    Mode,
    MqttSettings,
    OutboxSettings,
    PolicySettings,
    Role,
    Settings,
    UplinkPolicySettings,
    UplinkSettings,
    WayOutSettings,
)

__all__ = [
    "DEFAULT_PATH",
    "DEFAULT_RELAY_PATH",
    "AlertSettings",
    "BondSettings",
    "BrokerSettings",
    "Detect",
    "LinkSettings",
    "MacPolicy",
    "MetricsSettings",
    "Mode",
    "MqttSettings",
    "OutboxSettings",
    "PolicySettings",
    "RelaySettings",
    "Role",
    "Settings",
    "TlsSettings",
    "UplinkPolicySettings",
    "UplinkSettings",
    "WayOutSettings",
    "default_file",
    "load",
    "load_relay",
    "node_name",
    "readme_table",
]
