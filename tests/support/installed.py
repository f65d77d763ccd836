"""linkhold's wheel and its service's venv, made once a session with the real `setup`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
"""Not the one of a test: a service's sandbox hides /root, where a pyenv may be."""


def missing() -> str:
    """Return why nothing can be installed here, empty when it can."""
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    if 'VERSION_ID="12"' not in release or "ID=debian" not in release.splitlines():
        return "the real install is shown on Debian 12"
    if os.geteuid() != 0:
        return "needs root"
    needed = {"python3-venv": "/usr/lib/python3.11/ensurepip", "mosquitto": "/usr/sbin/mosquitto"}
    lacking = [package for package, path in needed.items() if not Path(path).exists()]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def build_wheel(folder: Path) -> Path:
    """Build the wheel into ``folder`` as `make wheel` does and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*pip, str(folder), str(REPO)], check=True, capture_output=True, timeout=120)
    return next(folder.glob("linkhold-*.whl"))


def furnish(root: Path) -> None:
    """Make a folder look like a Debian 12 whose packages are there."""
    for name in ("usr/sbin", "etc", "usr/lib/python3.11/ensurepip"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy("/etc/os-release", root / "etc/os-release")
    (root / "usr/sbin/mosquitto").touch()
    (root / "usr/lib/python3.11/ensurepip/__init__.py").touch()


def setup(wheel: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run `linkhold setup` from the wheel as it is, as its first run on a host does."""
    environment = {**os.environ, "PYTHONPATH": str(wheel), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [PYTHON, "-m", "linkhold", "setup", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=300
    )
    assert "Traceback" not in done.stderr, done.stderr
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done
