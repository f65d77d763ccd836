"""How an agent is started, and what it finds of the one before it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold import __version__
from linkhold.daemon.log import log
from linkhold.model import WireError
from linkhold.paths import CONTROL_SOCKET, claim_run_dir
from linkhold.wire import load_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkhold.config.settings import Mode, Settings
    from linkhold.control import ControlServer
    from linkhold.decide.node import Context


@dataclass(frozen=True, slots=True)
class Start:
    """How an agent is started: what the command line says."""

    settings: Settings
    config_file: Path | None
    run_dir: Path
    state_dir: Path
    mode: Mode | None = None
    broker_by_unit: bool = False
    """The node's broker is a service of systemd: start none, use that one."""


def with_mode(settings: Settings, mode: Mode | None) -> Settings:
    """Return ``settings`` with the mode of the command line, which overrides the file."""
    return settings if mode is None else replace(settings, mode=mode)


async def heal_run_dir(folder: Path, control: ControlServer) -> None:
    """Make run folder and control socket again if somebody removed them."""
    try:
        claim_run_dir(folder)
        if await control.heal():
            log.warning("%s was removed; made again", folder / CONTROL_SOCKET)
    except OSError as error:
        log.warning("run folder %s", f"{folder}: {error.strerror}" if error.strerror else error)


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
        with contextlib.suppress(KeyError, TypeError, OverflowError):
            absent_s = round((identity.started.mono_ns - stored["mono_ns"]) / 1e9, 1)
    return {
        "version": __version__,
        "mode": context.settings.mode.value,
        "previous_session": position[0] if position else None,
        "previous_seq": position[1] if position else None,
        "absent_s": absent_s,
    }
