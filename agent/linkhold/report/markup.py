"""HTML and SVG by construction: what is no :class:`Markup` is text, and is escaped.

Names and texts come from other machines. There is no way here to put one into a page unescaped.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# HTML has no way to write these, not even as a reference (HTML standard, 13.1.4); marks that turn
# the direction of writing would make a name look like another one.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufffe\uffff]"
)
_VOID = frozenset({"meta", "br", "rect", "line", "path", "circle"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return ``value`` as text of a page."""
    return Markup(escape(_FORBIDDEN.sub("\ufffd", str(value)), quote=True))


def el(name: str, /, *content: Markup | str, **attributes: object) -> Markup:
    """Return an element; content that is no markup is text.

    ``class_`` and ``for_`` are written without the underscore, others with ``-`` for ``_``; an
    attribute of None is left out.
    """
    written = "".join(
        f' {_attribute(key)}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID and not content:
        end = "/" if name not in {"meta", "br"} else ""
        return Markup(f"<{name}{written}{end}>")
    inner = "".join(one if isinstance(one, Markup) else text(one) for one in content)
    return Markup(f"<{name}{written}>{inner}</{name}>")


def _attribute(key: str) -> str:
    if key in {"viewBox", "patternUnits"}:
        return key
    return key.rstrip("_").replace("_", "-")


def joined(parts: Iterable[Markup | str]) -> Markup:
    """Return parts one after the other."""
    return Markup("".join(one if isinstance(one, Markup) else text(one) for one in parts))
