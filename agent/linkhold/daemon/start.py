"""How an agent is started, and what it finds of the one before it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold import __version__
from linkhold.model import WireError
from linkhold.wire import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkhold.config.settings import Mode, Settings
    from linkhold.decide.node import Context


@dataclass(frozen=True, slots=True)
class Start:
    """How an agent is started: what the command line says."""

    settings: Settings
    config_file: Path | None
    run_dir: Path
    state_dir: Path
    mode: Mode | None = None


def with_mode(settings: Settings, mode: Mode | None) -> Settings:
    """Return ``settings`` with the mode of the command line, which overrides the file."""
    return settings if mode is None else replace(settings, mode=mode)


def stored_state(baseline: bytes | None) -> Mapping[str, Any] | None:
    """Return the state document that was stored with the last events, None without a whole one."""
    try:
        document = load_json(baseline) if baseline else None
    except WireError:
        return None
    return document if isinstance(document, dict) else None


def started_data(
    context: Context, position: tuple[str, int] | None, stored: Mapping[str, Any] | None
) -> dict[str, object]:
    """Return the data of ``agent.started``. ``position`` is (session, seq) of the last event."""
    identity = context.identity
    absent_s = None
    if stored and stored.get("boot_id") == identity.boot_id:
        with contextlib.suppress(KeyError, TypeError):
            absent_s = round((identity.started.mono_ns - stored["mono_ns"]) / 1e9, 1)
    return {
        "version": __version__,
        "mode": context.settings.mode.value,
        "previous_session": position[0] if position else None,
        "previous_seq": position[1] if position else None,
        "absent_s": absent_s,
    }
