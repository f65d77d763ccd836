"""What differs between distributions, as a table: names of packages, interpreters and commands."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from linkhold.model import HostError


@dataclass(frozen=True, slots=True)
class Host:
    """One distribution, as os-release(5) names it.

    ``python`` are the interpreters to look for, best first; ``packages`` what must be installed,
    by the file that shows it is there; ``install`` the command that installs packages.
    """

    id: str
    version: str
    python: tuple[str, ...]
    packages: tuple[tuple[str, str], ...]
    install: str
    note: str = ""


_MOSQUITTO = ("mosquitto", "/usr/sbin/mosquitto")
_MOSQUITTO_NOTE = (
    "mosquitto's package starts a broker of its own on port 1883, which linkhold does not use: "
    "systemctl disable --now mosquitto"
)


def _debian(id_: str, version: str, python: str) -> Host:
    venv = (f"{python}-venv", f"/usr/lib/{python}/ensurepip/__init__.py")
    install = "apt-get install --no-install-recommends"
    return Host(id_, version, (python,), (venv, _MOSQUITTO), install, _MOSQUITTO_NOTE)


HOSTS = (
    _debian("debian", "12", "python3.11"),
    _debian("ubuntu", "22.04", "python3.10"),
    _debian("ubuntu", "24.04", "python3.12"),
    # python3 is 3.9 there, which is too old; mosquitto comes from EPEL (dnf install epel-release).
    Host(
        "rhel",
        "9",
        ("python3.12", "python3.11"),
        (("python3.11", "/usr/bin/python3.11|/usr/bin/python3.12"), _MOSQUITTO),
        "dnf install",
        "mosquitto comes from EPEL: dnf install epel-release",
    ),
)
LIKE = {"almalinux": "rhel", "rocky": "rhel", "centos": "rhel", "ol": "rhel"}
"""Rebuilds that have the packages and versions of another."""


def os_release(text: str) -> dict[str, str]:
    """Return the assignments of an os-release(5) file; lines that are none are passed over."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            try:
                words = shlex.split(value)
            except ValueError:
                continue
            found[name.strip()] = words[0] if words else ""
    return found


def host_of(release: str) -> Host:
    """Return the table's entry for the text of an os-release file; raises :class:`HostError`.

    RHEL's minor versions (9.4) are one entry.
    """
    found = os_release(release)
    id_, version = found.get("ID", ""), found.get("VERSION_ID", "")
    wanted = LIKE.get(id_, id_)
    for host in HOSTS:
        if host.id == wanted and (
            version == host.version or version.startswith(f"{host.version}.")
        ):
            return host
    known = ", ".join(f"{host.id} {host.version}" for host in HOSTS)
    raise HostError(f"this is {id_ or 'unknown'} {version}: setup --system knows {known}")
