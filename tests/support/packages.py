"""Packages of this machine as files again, and a repository of them for a node without them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

INFO = Path("/var/lib/dpkg/info")
SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "conffiles", "triggers")
REPOSITORY = "/var/local-packages"
SOURCE = f"deb [trusted=yes] file:{REPOSITORY} ./\n"
PROGRAMS = ("apt-get", "dpkg-deb", "dpkg-query", "dpkg-scanpackages")


def missing() -> str:
    """Return why there can be no such repository here, empty when there can."""
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"not installed: {', '.join(lacking)} (dpkg-dev)" if lacking else ""


def repository(folder: Path, *names: str) -> Path:
    """Make a layer for a node with a repository of these packages, and no other source of any."""
    place = folder / REPOSITORY.lstrip("/")
    place.mkdir(parents=True)
    for name in names:
        build(folder.parent / name, place, name)
    index = run("dpkg-scanpackages", ".", cwd=place)
    (place / "Packages").write_text(index, encoding="utf-8")
    sources = folder / "etc/apt/sources.list"
    sources.parent.mkdir(parents=True)
    sources.write_text(SOURCE, encoding="ascii")
    return folder


def build(root: Path, place: Path, name: str) -> None:
    """Build one package out of what of it is installed, with its maintainer's own scripts."""
    (root / "DEBIAN").mkdir(parents=True)
    control = [line for line in run("dpkg-query", "-s", name).splitlines() if line]
    kept = _without(control, ("Status:", "Conffiles:"))
    (root / "DEBIAN/control").write_text("\n".join(kept) + "\n", encoding="utf-8")
    for script in SCRIPTS:
        if (INFO / f"{name}.{script}").exists():
            shutil.copy(INFO / f"{name}.{script}", root / f"DEBIAN/{script}")
    for listed in run("dpkg-query", "-L", name).splitlines():
        _copy(Path(listed), root / listed.lstrip("/"))
    run("dpkg-deb", "--build", "--root-owner-group", "-Znone", str(root), str(place))


def _without(control: list[str], names: tuple[str, ...]) -> list[str]:
    """Return the fields of a control file but for some, with the lines that go on with them."""
    kept, keeps = [], True
    for line in control:
        if not line.startswith(" "):
            keeps = not line.startswith(names)
        if keeps:
            kept.append(line)
    return kept


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():  # also /lib, which is a link
        target.mkdir(parents=True, exist_ok=True)
    elif source.exists() or source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


def run(*command: str, cwd: Path | None = None) -> str:
    """Return what a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout
