"""Which brokers a person means: by URL, or by the configuration of a relay or an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import yaml

from linkhold.config.brokers import BrokerSettings, TlsSettings
from linkhold.config.document import compose
from linkhold.config.files import UnreadableError, read_small
from linkhold.config.forms import form_problem
from linkhold.config.loader import DEFAULT_PATH, DEFAULT_RELAY_PATH, load, load_section
from linkhold.config.relay import RelaySettings
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FORM = "allowed: mqtt://host, mqtts://host:8883, mqtts://user@host"
MOST_BROKERS = 16


def parse_url(text: str) -> BrokerSettings:
    """Return the broker that a URL names. Raises :class:`LinkholdError`."""
    try:
        parts = urlsplit(text)
        port = parts.port or 0
    except ValueError as error:
        raise LinkholdError(f"{text!r} is no broker: {error}; {FORM}") from None
    trouble = _trouble(parts)
    if trouble:
        named = repr(text) if parts.password is None else "the URL of the broker"
        raise LinkholdError(f"{named}: {trouble}")
    tls = TlsSettings() if parts.scheme == "mqtts" else None
    return BrokerSettings(parts.hostname or "", port, tls, parts.username or "")


def _trouble(parts: SplitResult) -> str:
    if parts.password is not None:
        return (
            "everybody on this machine sees a password in a command; "
            "allowed: --config with username and password_file"
        )
    if parts.scheme not in {"mqtt", "mqtts"} or form_problem("host", parts.hostname or ""):
        return f"is no broker; {FORM}"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return f"has more than host and port; {FORM}"
    return ""


def find_brokers(urls: Sequence[str], config: Path | None) -> tuple[BrokerSettings, ...]:
    """Return the brokers to listen to.

    Without URLs those of ``config``; without that, those of this machine's relay, else of its
    agent.

    Raises:
        LinkholdError: a URL or a file is wrong, or no broker is named anywhere.
    """
    if urls:
        brokers = tuple(parse_url(url) for url in urls)
    elif config is not None:
        brokers = _of_file(config)
    else:
        files = [path for path in (DEFAULT_RELAY_PATH, DEFAULT_PATH) if path.exists()]
        brokers = next((found for path in files if (found := _of_file(path))), ())
    if not brokers:
        where = f"{config} names no broker" if config else "no broker is named"
        raise LinkholdError(f"{where}; allowed: --broker mqtt://host, or a configuration that does")
    if len(brokers) > MOST_BROKERS:
        raise LinkholdError(f"{len(brokers)} brokers; allowed: {MOST_BROKERS} at most")
    return tuple({place_of(broker): broker for broker in brokers}.values())


def _of_file(path: Path) -> tuple[BrokerSettings, ...]:
    """Return the brokers of a relay's file, which has them at its top, or of an agent's."""
    try:
        root = compose(read_small(path)).root
    except UnreadableError as error:
        raise LinkholdError(f"{path}: {error}") from None
    keys = root.value if isinstance(root, yaml.MappingNode) else []
    if any(key.value == "brokers" for key, _ in keys):
        # Whom a relay tells does not matter here, so that a file with brokers alone will do.
        return load_section(RelaySettings, path, path, ()).brokers
    return load(path).mqtt.fleet


def place_of(broker: BrokerSettings) -> str:
    """Return a broker as people name it, and never more than that: host and port."""
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    return f"{host}:{broker.tcp_port}"
