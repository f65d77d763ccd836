"""What a server of the fleet wants to be shown: password and certificates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.kept import read_kept
from linkhold.model import BrokerError
from linkhold.mqtt.tls import Tls

if TYPE_CHECKING:
    from linkhold.config.brokers import BrokerSettings
    from linkhold.config.relay import AlertmanagerSettings

MAX_PASSWORD_BYTES = 4096


def password_of(broker: BrokerSettings | AlertmanagerSettings) -> str | None:
    """Return the first line of the password file; raises :class:`BrokerError`."""
    if not broker.password_file:
        return None
    try:
        return first_line(Path(broker.password_file))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text, or too large"
        raise BrokerError(f"password file {broker.password_file}: {reason}") from error


def first_line(path: Path) -> str:
    """Return the first line of a file with a secret; raises OSError and ValueError."""
    return read_kept(path, MAX_PASSWORD_BYTES).decode("utf-8").partition("\n")[0].rstrip("\r")


def tls_of(broker: BrokerSettings) -> Tls | None:
    """Return the certificates of a broker that wants TLS."""
    if broker.tls is None:
        return None
    ca, cert, key = (
        Path(name) if name else None for name in (broker.tls.ca, broker.tls.cert, broker.tls.key)
    )
    return Tls(ca, cert, key)
