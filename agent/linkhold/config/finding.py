"""What is wrong with settings that are possible one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.config.schema import Key


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, where it stands, and the other place that it disagrees with."""

    at: Key
    text: str
    other: Key = ()
