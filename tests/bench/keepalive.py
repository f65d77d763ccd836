"""What keepalive costs, the audit of many sockets and their cover; how fast drift is repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import audit_scene, cover_scene, drift_scene

if TYPE_CHECKING:
    from bench.rows import Row


def run(*, quick: bool = False) -> list[Row]:
    """Measure all scenes."""
    return [
        *audit_scene.rows(quick=quick),
        *cover_scene.rows(quick=quick),
        *drift_scene.rows(),
    ]
