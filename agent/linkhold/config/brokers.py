"""How a server is reached and trusted: the keys of one broker and of TLS."""

from __future__ import annotations

from dataclasses import dataclass

from linkhold.config.option import option


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of one server; paths of PEM files."""

    ca: str = option(
        "", "CA certificate; empty: the system's CAs", path=True, example="/etc/linkhold/ca.pem"
    )
    cert: str = option(
        "", "client certificate; its CN names the node", path=True, example="/etc/linkhold/node.pem"
    )
    key: str = option("", "client key", path=True, example="/etc/linkhold/node.key")


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """One MQTT broker."""

    host: str = option("", "name or address", text=True, host=True, example="broker.example.org")
    port: int = option(0, "TCP port; 0 means 8883 with tls and 1883 without", least=0, most=65535)
    tls: TlsSettings | None = option(None, "use TLS; {} for the system's CAs", item=TlsSettings)
    username: str = option("", "user name, where the broker wants one", example="linkhold")
    password_file: str = option(
        "", "file with the password, on one line", path=True, example="/etc/linkhold/password"
    )

    @property
    def tcp_port(self) -> int:
        """The port to connect to, the default filled in."""
        return self.port or (8883 if self.tls is not None else 1883)
