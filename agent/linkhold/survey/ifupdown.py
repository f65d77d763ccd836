"""Whether ifupdown or ifupdown2 configures an interface (interfaces(5), ifup(8)).

Both run at boot and on hot-plug only, so nothing shows that they run: the claim is the stanza,
where their program is installed.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from linkhold.model.survey import Owner, OwnerKind
from linkhold.survey.files import pairs
from linkhold.survey.interfaces import Interfaces

if TYPE_CHECKING:
    from linkhold.survey.files import Reader

MAIN = "/etc/network/interfaces"
PROGRAMS = ("/sbin/ifup", "/usr/sbin/ifup")
IFUPDOWN2 = ("/etc/network/ifupdown2", "/usr/share/ifupdown2")
IFSTATES = ("/run/network/ifstate", "/etc/network/run/ifstate")
MAX_FILES = 64
# source-directory takes run-parts-like names only (interfaces(5)); ifupdown2 takes *.intf too.
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+(\.intf)?")


class Configured:
    """All of ifupdown's files, read once; ``files`` are their paths in the order read."""

    def __init__(self, reader: Reader) -> None:
        self.interfaces: dict[str, Interfaces] = {}
        self.installed = any(reader.exists(program) for program in PROGRAMS)
        self.second = any(reader.exists(path) for path in IFUPDOWN2)
        self.up: dict[str, str] = {}
        if not self.installed:
            return
        self._read(reader, MAIN)
        for path in IFSTATES:
            self.up |= dict(pairs(reader.text(path) or ""))

    def _read(self, reader: Reader, path: str) -> None:
        if path in self.interfaces or len(self.interfaces) >= MAX_FILES:
            return
        text = reader.text(path)
        if text is None:
            return
        found = self.interfaces[path] = Interfaces()
        found.add(text)
        for keyword, pattern in found.sources:
            for file in _expand(reader, keyword, pattern):
                self._read(reader, file)

    def owner(self, name: str) -> Owner | None:
        """Return the claim to an interface; None for none."""
        files: list[str] = []
        seen: list[str] = []
        methods: list[str] = []
        for path, found in self.interfaces.items():
            claims = _claims(found, name)
            if claims:
                files.append(path)
                seen += [f"{path}: {claim}" for claim in claims]
                methods += found.methods(name)
        automatic = any(found.automatic(name) for found in self.interfaces.values())
        hands_off = methods and set(methods) == {"manual"} and not automatic
        if not files or (hands_off and len(seen) == len(methods) and name not in self.up):
            return None
        return Owner(
            OwnerKind.IFUPDOWN2 if self.second else OwnerKind.IFUPDOWN,
            name,
            evidence=(*seen, *([f"ifstate: {name} is up"] if name in self.up else [])),
            profile_files=tuple(files),
            dhcp=True if "dhcp" in methods else (None if self._unclear(name) else False),
            unknown=("ifupdown2 templates are not expanded",) if self._templates else (),
        )

    @property
    def _templates(self) -> bool:
        return any(found.templates for found in self.interfaces.values())

    def _unclear(self, name: str) -> bool:
        mapped = any(found.mapped(name) for found in self.interfaces.values())
        return mapped or self._templates


def _claims(found: Interfaces, name: str) -> list[str]:
    claims = [f"iface {name} {method}".rstrip() for method in found.methods(name)]
    claims += [f"used by {user}" for user in found.users(name)]
    if found.mapped(name):
        claims.append(f"a mapping for {name}")
    return claims


def _expand(reader: Reader, keyword: str, pattern: str) -> list[str]:
    """Return the files that a ``source`` line names; relative paths start at /etc/network."""
    absolute = PurePosixPath("/etc/network") / pattern
    if keyword == "source-directory":
        return [
            file
            for file in reader.files(str(absolute))
            if PLAIN_NAME.fullmatch(PurePosixPath(file).name)
        ]
    relative = str(absolute).lstrip("/")
    try:
        found = sorted(reader.root.glob(relative))
    except (ValueError, NotImplementedError, OSError, IndexError, RecursionError):
        return []
    paths = ["/" + str(path.relative_to(reader.root)) for path in found[:MAX_FILES]]
    return [p for path in paths for p in _files_of(reader, path)]


def _files_of(reader: Reader, path: str) -> list[str]:
    if not reader.path(path).is_dir():
        return [path]
    return [file for file in reader.files(path) if PLAIN_NAME.fullmatch(PurePosixPath(file).name)]
