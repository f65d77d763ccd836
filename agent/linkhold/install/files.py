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
class Part:
    """What a host can be: one set of units with what belongs to them.

    ``files`` are the paths on the host and the shipped file for each. ``default`` are the
    arguments that print its ``config``, ``without`` the packages of the host's table that it does
    not need.
    """

    name: str
    units: tuple[str, ...]
    files: tuple[tuple[str, str], ...]
    config: str
    default: tuple[str, ...]
    without: frozenset[str] = frozenset()

    @property
    def accounts(self) -> tuple[str, str]:
        """The host's files of sysusers.d(5) and tmpfiles.d(5)."""
        return self.files[0][0], self.files[1][0]


AGENT = Part(
    "agent",
    UNITS,
    (
        ("/etc/sysusers.d/linkhold.conf", "sysusers.conf"),
        ("/etc/tmpfiles.d/linkhold.conf", "tmpfiles.conf"),
        ("/etc/systemd/logind.conf.d/50-linkhold.conf", "logind.conf.d/50-linkhold.conf"),
    ),
    CONFIG,
    ("check", "--print-default"),
)
RELAY = Part(
    "relay",
    ("linkhold-relay.service",),
    (
        ("/etc/sysusers.d/linkhold-relay.conf", "sysusers-relay.conf"),
        ("/etc/tmpfiles.d/linkhold-relay.conf", "tmpfiles-relay.conf"),
    ),
    "/etc/linkhold/relay.yaml",
    ("relay", "--print-default"),
    without=frozenset({"mosquitto"}),
)
PARTS = (AGENT, RELAY)


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


def host_files(rights: tuple[str, ...] = (), parts: tuple[Part, ...] = (AGENT,)) -> list[HostFile]:
    """Return every file beside the venv and the configuration."""
    named = {f"{UNIT_FOLDER}/{unit}": unit for part in parts for unit in part.units}
    named |= {drop_in(right): f"drop-ins/{right}.conf" for right in rights}
    named |= {path: name for part in parts for path, name in part.files}
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
