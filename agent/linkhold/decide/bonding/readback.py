"""Options that were sent, compared with those that the kernel reports. Pure.

Apart from what the configuration means, which the guard and a boot must not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.look import Look


def differing(
    wanted: Mapping[str, object], seen: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """Return the options that are not as wanted: name -> (wanted, seen).

    An option that this kernel does not report at all is seen as None.
    """
    return {
        name: (value, seen.get(name)) for name, value in wanted.items() if seen.get(name) != value
    }


def named(look: Look, options: Mapping[str, object]) -> dict[str, object]:
    """Return options with interfaces by name: ``primary`` and ``active_slave``, empty for none."""
    found = dict(options)
    for key in ("primary", "active_slave"):
        index = options.get(key)
        found[key] = look.name_of(index) if isinstance(index, int) and index else ""
    return found
