"""Options that were sent, compared with those that the kernel reports. Pure.

Apart from what the configuration means, which the guard and a boot must not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def differing(
    wanted: Mapping[str, object], seen: Mapping[str, object]
) -> dict[str, tuple[object, object]]:
    """Return the options that are not as wanted: name -> (wanted, seen).

    An option that this kernel does not report at all is seen as None.
    """
    return {
        name: (value, seen.get(name)) for name, value in wanted.items() if seen.get(name) != value
    }
