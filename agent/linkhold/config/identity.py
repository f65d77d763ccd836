"""What the configuration says about things outside of it: named files, and the node's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.config.certificate import common_name
from linkhold.config.files import UnreadableError, read_small
from linkhold.config.finding import Finding
from linkhold.config.schema import dotted, shown
from linkhold.model import ConfigError
from linkhold.wire import is_topic_safe, topic_safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.brokers import BrokerSettings, TlsSettings
    from linkhold.config.power import PowerSettings
    from linkhold.config.relay import AlertmanagerSettings, RelaySettings
    from linkhold.config.schema import Key
    from linkhold.config.settings import Settings


def node_name(settings: Settings) -> str:
    """Return the name under which this node publishes, one MQTT topic level.

    It is ``node``, else the common name of the client certificates, else the host name with
    everything unsafe replaced. A certificate that cannot be read has no say: with it the
    fleet's leg cannot connect, and the node's own leg does not depend on it.

    Raises:
        ConfigError: ``node`` and the certificates, or two certificates, name different nodes.
    """
    mistakes = tuple(f"{dotted(one.at)}: {one.text}" for one in _name_findings(settings))
    if mistakes:
        raise ConfigError(mistakes)
    names = _certificate_names(settings)
    return settings.node or next(iter(names.values()), "") or topic_safe(os.uname().nodename)


def file_findings(settings: Settings) -> Iterator[Finding]:
    """Yield what is wrong with the files that the settings name, and with the node's name."""
    for number, broker in enumerate(settings.mqtt.fleet):
        at: Key = ("mqtt", "fleet", number)
        if broker.tls is not None:
            yield from _tls_files(broker.tls, (*at, "tls"))
        yield from _password_file(broker.password_file, at)
    yield from _power_files(settings.power)
    yield from _name_findings(settings)


def relay_file_findings(settings: RelaySettings) -> Iterator[Finding]:
    """Yield what is wrong with the files that the relay's settings name."""
    servers: dict[str, tuple[BrokerSettings | AlertmanagerSettings, ...]] = {
        "brokers": settings.brokers,
        "alertmanagers": settings.alertmanagers,
    }
    for name, entries in servers.items():
        for number, server in enumerate(entries):
            at: Key = (name, number)
            if server.tls is not None:
                yield from _tls_files(server.tls, (*at, "tls"))
            yield from _password_file(server.password_file, at)
    problem = _unreadable(settings.apprise_file) if settings.apprise_file else ""
    if problem:
        yield Finding(("apprise_file",), f"{settings.apprise_file} {problem}")


def _power_files(power: PowerSettings) -> Iterator[Finding]:
    for number, ups in enumerate(power.nut):
        at: Key = ("power", "nut", number)
        if ups.tls is not None:
            yield from _tls_files(ups.tls, (*at, "tls"))
        yield from _password_file(ups.password_file, at)
    for number, sensor in enumerate(power.mqtt):
        if sensor.broker is not None:
            at = ("power", "mqtt", number, "broker")
            if sensor.broker.tls is not None:
                yield from _tls_files(sensor.broker.tls, (*at, "tls"))
            yield from _password_file(sensor.broker.password_file, at)


def _name_findings(settings: Settings) -> Iterator[Finding]:
    first: Key = ("node",)
    wanted = settings.node
    for at, name in _certificate_names(settings).items():
        if not is_topic_safe(name):
            text = f"the certificate's CN {shown(name)} cannot be one level of an MQTT topic"
            yield Finding(at, text)
        elif not wanted:
            first, wanted = at, name
        elif name != wanted:
            other = "node" if first == ("node",) else dotted(first)
            text = f"the certificate's CN is {shown(name)}, but {other} says {shown(wanted)}"
            yield Finding(at, f"{text}; allowed: one name", first)


def _certificate_names(settings: Settings) -> dict[Key, str]:
    """Return the common names of the client certificates that can be read."""
    names: dict[Key, str] = {}
    for number, broker in enumerate(settings.mqtt.fleet):
        if broker.tls is None or not broker.tls.cert:
            continue
        try:
            name = common_name(read_small(Path(broker.tls.cert)))
        except (UnreadableError, ValueError):
            continue
        names["mqtt", "fleet", number, "tls", "cert"] = name
    return names


def _tls_files(tls: TlsSettings, at: Key) -> Iterator[Finding]:
    unreadable = False
    for name in ("ca", "cert", "key"):
        path = getattr(tls, name)
        problem = _unreadable(path) if path else ""
        if problem:
            unreadable = True
            yield Finding((*at, name), f"{path} {problem}")
    if not unreadable:
        yield from _tls_content(tls, at)


def _tls_content(tls: TlsSettings, at: Key) -> Iterator[Finding]:
    import ssl  # noqa: PLC0415 -- most configurations and commands do without it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if tls.ca:
            context.load_verify_locations(cafile=tls.ca)
    except OSError:
        yield Finding((*at, "ca"), f"{tls.ca} holds no usable PEM certificates")
    try:
        if tls.cert and tls.key:
            common_name(read_small(Path(tls.cert)))
            # An encrypted key would ask for its password on the terminal, or wait for it.
            context.load_cert_chain(tls.cert, tls.key, password=lambda: b"-")
    except ValueError as error:
        yield Finding((*at, "cert"), f"{tls.cert} {error}")
    except (OSError, UnreadableError):
        text = f"{tls.key} is encrypted, no PEM key, or not the key of {tls.cert}"
        yield Finding((*at, "key"), text, (*at, "cert"))


def _password_file(path: str, at: Key) -> Iterator[Finding]:
    if not path:
        return
    problem = _unreadable(path)
    if not problem:
        lines = read_small(Path(path)).splitlines()
        problem = "" if len(lines) == 1 and lines[0] else "does not hold one line"
    if problem:
        yield Finding((*at, "password_file"), f"{path} {problem}")


def _unreadable(path: str) -> str:
    try:
        read_small(Path(path))
    except UnreadableError as error:
        return str(error)
    return ""
