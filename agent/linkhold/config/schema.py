"""The dataclasses of :mod:`linkhold.config.settings` as plain descriptions of their keys.

Reader and printer work from these descriptions alone, so that a new key is one line in
``settings.py``.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

Key: TypeAlias = tuple[str | int, ...]
"""Where a value stands: ``("mqtt", "fleet", 0, "port")``."""


class Kind(Enum):
    """What a key holds."""

    SECTION = "a section"
    OPTIONAL = "an optional section"
    LIST = "a list"
    TEXTS = "a list of text"
    TABLE = "a mapping of names"
    CHOICE = "one of some words"
    BOOL = "true or false"
    INT = "a whole number"
    FLOAT = "a number"
    TEXT = "text"


_SCALARS = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.TEXT}
FORMS = {
    "ip": "an IP address of another machine",
    "host": "a host name or an IP address",
    "endpoint": "host:port, an IPv6 address in brackets",
    "url": "a URL of http or https, without a login in it",
    "interface": "an interface name, 1 to 15 bytes without space, / and :",
    "new_interface": "1 to 15 bytes without space, /, : and %, not lo, all or default",
    "member": "an interface name, a MAC (aa:bb:cc:dd:ee:ff) or a bus path (0000:3b:00.0, 1-1:1.0)",
    "path": "an absolute path",
    "prom": "an absolute path that ends in .prom, else node_exporter does not read it",
    "topic": "an MQTT topic filter (+ a whole level, # at the end) that is none of commands",
    "word": "printable text without spaces and quotes",
    "port": "a port, 1 to 65535",
    "safe": "1 to 64 letters, digits, . _ -, with no . or - at the ends",
    "text": "text that is not empty",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One key of a section.

    ``item`` is the enum of a choice, or the dataclass of a section, of a list's items or of a
    mapping's values.
    """

    name: str
    kind: Kind
    default: Any
    item: Any
    metadata: Mapping[str, Any]

    @property
    def help(self) -> str:
        """What the key means, one line."""
        return str(self.metadata["help"])

    @property
    def required(self) -> bool:
        """Whether the key must be given."""
        return bool(self.metadata.get("text"))

    @property
    def example(self) -> Any:
        """A value to show where the default says nothing."""
        return self.metadata.get("example", self.default)

    @property
    def form(self) -> str:
        """The name of the form that text must have, or empty."""
        return next((form for form in FORMS if self.metadata.get(form)), "")

    @property
    def key_form(self) -> str:
        """The name of the form that the keys of a mapping must have."""
        return str(self.metadata.get("keys", "interface"))

    @property
    def duration(self) -> bool:
        """Whether the value is a time that is written with its unit."""
        return bool(self.metadata.get("duration"))

    @property
    def least(self) -> int:
        """The number of entries that a list or mapping has at least."""
        return int(self.metadata.get("least", 0))

    @property
    def each(self) -> Option:
        """One item of a list of text, which is never empty."""
        return Option(self.name, Kind.TEXT, "", None, {**self.metadata, "text": True})

    @property
    def allowed(self) -> str:
        """What may be written here, in words; empty for a section."""
        if self.kind in (Kind.SECTION, Kind.OPTIONAL):
            return ""
        if self.kind is Kind.CHOICE:
            return ", ".join(str(choice.value) for choice in self.item)
        if self.kind in (Kind.INT, Kind.FLOAT):
            return self._range()
        if self.kind is Kind.TEXTS:
            return f"{self._entries('a list')}, each {self.each.allowed}"
        if self.kind in (Kind.LIST, Kind.TABLE):
            return self._entries(self.kind.value)
        words = FORMS.get(self.form, self.kind.value)
        return (
            f"{words}, or empty" if self.form and not self.default and not self.required else words
        )

    def _range(self) -> str:
        least, most = self.metadata["least"], self.metadata["most"]
        if self.duration:
            return f"{duration(least)} to {duration(most)}, with a unit (s, m, h, d) or in seconds"
        return f"{plain(least)} to {plain(most)}"

    def _entries(self, what: str) -> str:
        most = self.metadata["most"]
        if self.least:
            return f"{what} of {self.least} to {most} entries"
        return f"{what}, at most {most} entries"


def plain(value: Any) -> str:
    """Return a default or bound as it is written in the file (``2.0`` as ``2``)."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def duration(seconds: float) -> str:
    """Return a time as it is written in the file: ``20m``, ``10s``, ``0``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size and not seconds % size:
            return f"{plain(seconds / size)}{unit}"
    return f"{plain(seconds)}s" if seconds else "0"


@cache
def options(section: Any) -> tuple[Option, ...]:
    """Return the keys of a settings dataclass, in the order in which they are declared."""
    hints = get_type_hints(section)
    return tuple(_option(one, hints[one.name]) for one in fields(section))


def dotted(key: Key) -> str:
    """Return a key as people write it: ``mqtt.fleet[0].port``, ``links['bond0.7'].role``."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.isascii() and part.replace("-", "_").isidentifier():
            text += f".{part}"
        else:
            text += f"[{shown(part)}]"
    return text.lstrip(".")


def shown(value: object, most: int = 60) -> str:
    """Return ``value`` in quotes, on one line and not too long, for a message."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def _option(one: Field[Any], hint: Any) -> Option:
    default = one.default if one.default_factory is MISSING else one.default_factory()
    kind, item = _kind(hint)
    return Option(one.name, kind, default, item or one.metadata.get("item"), one.metadata)


def _kind(hint: Any) -> tuple[Kind, Any]:
    origin = get_origin(hint)
    if origin is tuple:
        return Kind.TEXTS if get_args(hint)[0] is str else Kind.LIST, None
    if origin is Mapping:
        return Kind.TABLE, None
    if origin in (types.UnionType, Union):
        return Kind.OPTIONAL, get_args(hint)[0]
    if is_dataclass(hint):
        return Kind.SECTION, hint
    if issubclass(hint, Enum):
        return Kind.CHOICE, hint
    return _SCALARS[hint], None
