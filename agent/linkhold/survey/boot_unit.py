"""Whether linkhold's own oneshot makes bonds again at boot, where no network manager does."""

from __future__ import annotations

from pathlib import Path

UNIT = "linkhold-boot.service"
ROOT = Path("/")


def missing(root: Path | None = None) -> bool:
    """Tell whether systemd runs here and does not start the unit at boot."""
    where = ROOT if root is None else root
    if not (where / "run/systemd/system").is_dir():
        return False
    return not any((where / "etc/systemd/system").glob(f"*.wants/{UNIT}"))
