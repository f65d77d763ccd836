"""Who sets a sysctl on this host: files, in the order in which they win, and running daemons.

sysctl.d(5): files of all folders are read in the order of their names; a file in a folder that
comes earlier in the list hides those of the same name; a later line wins. ``/etc/sysctl.conf``
is read by procps' ``sysctl --system`` last. tuned(8): ``/etc/tuned/active_profile`` names the
profiles, ``[sysctl]`` of each ``tuned.conf`` is applied, ``include=`` pulls in others. CNI: the
``tuning`` plugin sets the sysctls of a container's namespace.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from linkhold.survey.files import sections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.survey.files import Reader

FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
LAST = "/etc/sysctl.conf"
TUNED = ("/etc/tuned", "/etc/tuned/profiles", "/usr/lib/tuned", "/usr/lib/tuned/profiles")
CNI = "/etc/cni/net.d"
PROFILES_MOST = 64
"""Profiles that are looked at: they include each other, and an error of theirs has no end."""


def owners(reader: Reader, name: str) -> tuple[str, ...]:
    """Return what sets ``net/ipv4/<name>`` here, with the value, the one that wins first."""
    key = f"net.ipv4.{name}"
    found = [*_cni(reader, key), *_tuned(reader, key), *reversed(list(_files(reader, key)))]
    return tuple(dict.fromkeys(found))


def _files(reader: Reader, key: str) -> Iterator[str]:
    names: dict[str, str] = {}
    for folder in FOLDERS:
        for path in reader.files(folder, ".conf"):
            names.setdefault(path.rpartition("/")[2], path)
    for path in (*(names[name] for name in sorted(names)), LAST):
        value = _assigned(reader.text(path) or "", key)
        if value is not None:
            yield f"{path} ({value})"


def _assigned(text: str, key: str) -> str | None:
    """Return what the last matching line of a sysctl.d file assigns; None without one.

    Keys may be written with slashes, begin with ``-`` (errors are ignored) and be patterns.
    """
    found = None
    for raw in text.splitlines():
        line = raw.strip()
        name, equals, value = line.partition("=")
        if not equals or line[0] in "#;":
            continue
        pattern = name.strip().removeprefix("-")
        first = next((sign for sign in pattern if sign in "./"), ".")
        if first == "/":  # with slashes first, a dot is part of a name
            pattern = pattern.replace("/", ".")
        if fnmatchcase(key, pattern):
            found = value.strip()
    return found


def _tuned(reader: Reader, key: str) -> Iterator[str]:
    active = reader.line("/etc/tuned/active_profile")
    seen: set[str] = set()
    for profile in active.split():
        for path, value in _profile(reader, profile, key, seen):
            yield f"tuned profile {profile}, {path} ({value})"


def _profile(reader: Reader, profile: str, key: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """Yield what a profile and those that it includes set; each profile is read once."""
    if "/" in profile or profile in seen or len(seen) >= PROFILES_MOST:
        return
    seen.add(profile)
    for folder in TUNED:
        path = f"{folder}/{profile}/tuned.conf"
        text = reader.text(path)
        if text is None:
            continue
        found = sections(text)
        value = found.get("sysctl", {}).get(key)
        if value:
            yield path, value[-1].lstrip("=> ")
        for include in found.get("main", {}).get("include", ()):
            for inner in include.split(","):
                yield from _profile(reader, inner.strip(), key, seen)
        return


def _cni(reader: Reader, key: str) -> Iterator[str]:
    for path in reader.files(CNI):
        if not path.endswith((".conf", ".conflist", ".json")):
            continue
        try:
            document = json.loads(reader.text(path) or "null")
        except (ValueError, RecursionError):
            continue
        plugins = document.get("plugins", [document]) if isinstance(document, dict) else []
        for plugin in plugins if isinstance(plugins, list) else ():
            values = plugin.get("sysctl") if isinstance(plugin, dict) else None
            if isinstance(values, dict) and key in values:
                yield f"CNI {path} ({values[key]})"
