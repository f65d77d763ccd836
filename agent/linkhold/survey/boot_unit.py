"""Whether linkhold's own oneshot makes bonds again at boot, where no network manager does."""

from __future__ import annotations

from pathlib import Path

UNIT = "linkhold-boot.service"
ROOT = Path("/")
FOLDERS = ("etc/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system")
"""Where units of packages and administrators are (systemd.unit(5)); /lib is a link to /usr/lib."""


def missing(root: Path | None = None) -> bool:
    """Tell whether systemd runs here and does not start the unit at boot."""
    where = ROOT if root is None else root
    if not (where / "run/systemd/system").is_dir():
        return False
    return not any((where / "etc/systemd/system").glob(f"*.wants/{UNIT}"))


def remedy(root: Path | None = None) -> str:
    """Return what is the matter with the unit and what to do, as the end of a sentence."""
    where = ROOT if root is None else root
    enable = f"systemctl enable {UNIT}"
    if any((where / folder / UNIT).exists() for folder in FOLDERS):
        return f"not enabled; run: {enable}"
    return "not installed; `linkhold setup --system` does it (docs/service.md)"
