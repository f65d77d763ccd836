"""What an installation has not started anew yet, after `linkhold setup --no-start`.

The units are named in a file of /run, which a boot empties: it starts every one of them anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.install.steps import Step, below

if TYPE_CHECKING:
    from pathlib import Path

MARK = "/run/linkhold-not-started"


def waiting(root: Path) -> frozenset[str]:
    """Return the units that still run as they were before the last change of what they run."""
    try:
        return frozenset(below(root, MARK).read_text(encoding="ascii").split())
    except (OSError, UnicodeDecodeError):
        return frozenset()


def put_off(root: Path, units: frozenset[str]) -> Step:
    """Return the step that notes which units still run as before."""
    text = f"note what still runs as before: {', '.join(sorted(units)) or 'nothing'}"
    return Step(text, lambda: waiting(root) == units, lambda: _write(below(root, MARK), units))


def _write(path: Path, units: frozenset[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{unit}\n" for unit in sorted(units)), encoding="ascii")
