"""The configuration file -> :class:`Settings`, or every mistake in it at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from linkhold.config.contradictions import contradictions
from linkhold.config.document import compose
from linkhold.config.files import UnreadableError, read_small
from linkhold.config.identity import file_findings, relay_file_findings
from linkhold.config.reader import Reader
from linkhold.config.relay import RelaySettings, relay_contradictions
from linkhold.config.schema import shown
from linkhold.config.settings import Settings
from linkhold.model import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from linkhold.config.finding import Finding

T = TypeVar("T")

DEFAULT_PATH = Path("/etc/linkhold/linkhold.yaml")
DEFAULT_RELAY_PATH = Path("/etc/linkhold/relay.yaml")


def load(path: Path | None = None, *, files: bool = False) -> Settings:
    """Return the agent's settings in the YAML file ``path``; an empty file means all defaults.

    Without ``path`` the file is ``/etc/linkhold/linkhold.yaml``, which may be missing. With
    ``files`` the files that the configuration names (certificates, password) are looked at too.

    Raises:
        ConfigError: with every mistake, one a line: file, line, key and what is allowed.
    """
    checks = (contradictions, file_findings) if files else (contradictions,)
    return load_section(Settings, path, DEFAULT_PATH, checks)


def load_relay(path: Path | None = None, *, files: bool = False) -> RelaySettings:
    """Return the relay's settings in ``path``, or in ``/etc/linkhold/relay.yaml``.

    Raises:
        ConfigError: with every mistake, as :func:`load`; also for a file that is missing, since a
            relay must be told of brokers.
    """
    if path is None and not os.path.lexists(DEFAULT_RELAY_PATH):
        hint = "name one with --config, or begin with: linkhold relay --print-default"
        raise ConfigError((f"{DEFAULT_RELAY_PATH}: does not exist; {hint}",))
    checks = (relay_contradictions, relay_file_findings) if files else (relay_contradictions,)
    return load_section(RelaySettings, path, DEFAULT_RELAY_PATH, checks)


def load_section(
    section: type[T],
    path: Path | None,
    default: Path,
    checks: Sequence[Callable[[T], Iterable[Finding]]],
) -> T:
    """Return what a configuration file says; see :func:`load`."""
    source = default if path is None else path
    name = str(source) if str(source).isprintable() else shown(str(source), most=4096)
    try:
        content = read_small(source)
    except UnreadableError as error:
        if path is None and error.missing and not source.is_symlink():
            content = b""
        else:
            raise ConfigError((f"{name}: {error}",)) from None
    document = compose(content)
    reader = Reader()
    for line, text in document.mistakes:
        reader.report_line(line, text)
    settings = reader.read(document.root, section)
    for check in checks:
        reader.report_all(check(settings))
    if reader.mistakes:
        raise ConfigError(tuple(f"{name}:{text}" for text in reader.sorted_mistakes()))
    return settings
