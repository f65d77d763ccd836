"""The files that a host gets, and where: units and what belongs to them, as they are shipped."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

HOME = "/opt/linkhold"
CURRENT = f"{HOME}/current"
COMMAND = "/usr/local/bin/linkhold"
CONFIG = "/etc/linkhold/linkhold.yaml"
UNITS = ("linkhold-boot.service", "linkhold-broker.service", "linkhold.service")
RIGHTS = ("cover", "namespaces")
"""Options that need more rights than the unit has; each has a drop-in of its name."""
UNIT_FOLDER = "/etc/systemd/system"


@dataclass(frozen=True, slots=True)
class HostFile:
    """One file of the host: where, what, and with which mode."""

    path: str
    content: bytes
    mode: int = 0o644


def shipped(name: str) -> bytes:
    """Return a file of systemd/: from the wheel, or from the checkout that we run from."""
    packaged = resources.files("linkhold.install") / "systemd" / name
    if packaged.is_file():
        return packaged.read_bytes()
    return (Path(__file__).parents[3] / "systemd" / name).read_bytes()


def drop_in(right: str) -> str:
    """Return where the drop-in of one of :data:`RIGHTS` goes."""
    return f"{UNIT_FOLDER}/linkhold.service.d/{right}.conf"


def host_files(rights: tuple[str, ...] = ()) -> list[HostFile]:
    """Return every file beside the venv and the configuration."""
    named = {f"{UNIT_FOLDER}/{unit}": unit for unit in UNITS}
    named |= {drop_in(right): f"drop-ins/{right}.conf" for right in rights}
    named |= {
        "/etc/sysusers.d/linkhold.conf": "sysusers.conf",
        "/etc/tmpfiles.d/linkhold.conf": "tmpfiles.conf",
        "/etc/systemd/logind.conf.d/50-linkhold.conf": "logind.conf.d/50-linkhold.conf",
    }
    found = [HostFile(path, shipped(name)) for path, name in named.items()]
    return [*found, HostFile(COMMAND, _COMMAND.encode(), 0o755)]


def lock_text() -> bytes:
    """Return the pinned dependencies with their hashes."""
    return (resources.files("linkhold.install") / "requirements.lock").read_bytes()


# Not pip's script: its first line names the folder that it was installed into, which is another
# one in an image that is built elsewhere.
_COMMAND = f"""\
#!/bin/sh
exec {CURRENT}/bin/python -I -m linkhold "$@"
"""
