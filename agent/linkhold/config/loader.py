"""The configuration file -> :class:`Settings`, or every mistake in it at once."""

from __future__ import annotations

from pathlib import Path

from linkhold.config.contradictions import contradictions
from linkhold.config.document import compose
from linkhold.config.files import UnreadableError, read_small
from linkhold.config.identity import file_findings
from linkhold.config.reader import Reader
from linkhold.config.schema import shown
from linkhold.config.settings import Settings
from linkhold.model import ConfigError

DEFAULT_PATH = Path("/etc/linkhold/linkhold.yaml")


def load(path: Path | None = None, *, files: bool = False) -> Settings:
    """Return the settings in the YAML file ``path``; an empty file means all defaults.

    Without ``path`` the file is ``/etc/linkhold/linkhold.yaml``, which may be missing. With
    ``files`` the files that the configuration names (certificates, password) are looked at too.

    Raises:
        ConfigError: with every mistake, one a line: file, line, key and what is allowed.
    """
    source = DEFAULT_PATH if path is None else path
    name = str(source) if str(source).isprintable() else shown(str(source), most=4096)
    try:
        content = read_small(source)
    except UnreadableError as error:
        if path is None and error.missing and not source.is_symlink():
            return Settings()
        raise ConfigError((f"{name}: {error}",)) from None
    document = compose(content)
    reader = Reader()
    for line, text in document.mistakes:
        reader.report_line(line, text)
    settings = reader.read(document.root)
    reader.report_all(contradictions(settings))
    if files:
        reader.report_all(file_findings(settings))
    if reader.mistakes:
        raise ConfigError(tuple(f"{name}:{text}" for text in reader.sorted_mistakes()))
    return settings
