"""What a comparison finds: an event before it has a number and a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from linkhold.model import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to ``subject``; ``type`` is a key of the catalogue."""

    type: str
    subject: str
    data: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = Severity.INFO
