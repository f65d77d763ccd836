"""How times and durations are shown to people, and where commands get the state from."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold import paths
from linkhold.cli import arguments
from linkhold.control import ControlClient
from linkhold.fleet_view.words import lasted, printable
from linkhold.kept import read_kept
from linkhold.model import LinkholdError, WireError
from linkhold.model.promises import STALE_S
from linkhold.wire import from_rfc3339, parse_state
from linkhold.wire.documents import MAX_STATE_BYTES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

MOST_DEPTH = 32
OWN_BOOT = Path("/proc/sys/kernel/random/boot_id")


def add_run_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the agent's folder."""
    parser.add_argument(
        "--run-dir",
        type=arguments.path,
        metavar="D",
        help="folder of the agent (default: the node's own)",
    )


def run_dir_of(args: argparse.Namespace) -> Path:
    """Return the run folder that a command means."""
    named: Path | None = args.run_dir
    return named.absolute() if named is not None else paths.find_run_dir()


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, ``3 min 5 s``; below 10 s with a tenth."""
    below_10_s = 0 < seconds < 10  # noqa: PLR2004 - as it is called
    return f"{seconds:.1f} s" if below_10_s else lasted(max(0.0, seconds))


def clock(rfc3339: str) -> str:
    """Return a time as local ``HH:MM:SS``, with the date when it is not today."""
    try:
        stamp = datetime.fromtimestamp(from_rfc3339(rfc3339)).astimezone()
    except (WireError, OverflowError, OSError, ValueError):
        return rfc3339
    today = datetime.now().astimezone().date()
    return f"{stamp:%H:%M:%S}" if stamp.date() == today else f"{stamp:%Y-%m-%d %H:%M:%S}"


def legible(value: Any, depth: int = MOST_DEPTH) -> Any:
    """Return a document without anything in its texts that a terminal acts on.

    Names come from the kernel, words from servers and sensors: whoever makes them must not
    steer the terminal of the person who looks. What is nested deeper than any document is cut.
    """
    if isinstance(value, str):
        return value if value.isprintable() else printable(value, len(value))
    if isinstance(value, (dict, list)) and not depth:
        return "..."
    if isinstance(value, dict):
        return {legible(key): legible(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [legible(inner, depth - 1) for inner in value]
    return value


@dataclass(frozen=True, slots=True)
class Found:
    """A state document and where it came from.

    ``problem`` is empty when a running agent gave a fresh state, else it says what is wrong;
    ``mute`` is the reason where an agent is there and does not answer.
    """

    document: Mapping[str, Any] | None
    problem: str = ""
    mute: str = ""


def find_state(run_dir: Path) -> Found:
    """Ask the agent for its state, or read what it left behind. Never raises."""
    mute = False
    try:
        client = ControlClient(run_dir / paths.CONTROL_SOCKET)
        mute = True
        try:
            return Found(client.ask("state")["state"])
        finally:
            client.close()
    except (LinkholdError, KeyError) as error:
        found = _left_behind(run_dir / paths.STATE_FILE, str(error))
        return replace(found, mute=str(error)) if mute else found


def _left_behind(path: Path, why: str) -> Found:
    try:
        view = parse_state(read_kept(path, MAX_STATE_BYTES))
    except FileNotFoundError:
        return Found(None, f"{why}; and none has left a state in {path.parent}")
    except (OSError, ValueError, WireError) as error:
        reason = getattr(error, "strerror", None) or error
        return Found(None, f"{why}; and {path} cannot be used: {reason}")
    if view.boot_id != OWN_BOOT.read_text().strip():
        return Found(view.document, f"{why}; this state is from before the last boot")
    age_s = view.age_s(time.monotonic_ns())
    ignored = ", so trainers ignore it" if age_s > STALE_S else ""
    return Found(view.document, f"{why}; this state is {duration(age_s)} old{ignored}")
