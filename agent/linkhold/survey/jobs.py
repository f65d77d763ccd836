"""Training jobs that are tied to an interface by name: those that run, and files for later ones.

``/proc/PID/environ`` is the environment that a process started with (proc(5)): what it changed
itself later does not show. It may be read by root and by the process's own user. Processes in
other network namespaces have interfaces of their own and are passed over.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from linkhold.model.survey import JobPin, JobsView
from linkhold.survey.files import unquoted
from linkhold.survey.pins import VARIABLES, pins
from linkhold.survey.processes import elsewhere, pids, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkhold.survey.files import Reader

ENVIRON_BYTES = 2 << 20  # the kernel's own limit is a quarter of the stack limit, 2 MiB
MAX_PINS = 1000
COMMAND_LETTERS = 200
FILES = ("/etc/environment", "/etc/profile", "/etc/nccl.conf", "/root/.nccl.conf")
FOLDER = "/etc/profile.d"
_SETTING = re.compile(
    rf"^[ \t]*(?:export[ \t]+)?({'|'.join(VARIABLES)})[ \t]*=[ \t]*(\"[^\"]*\"|'[^']*'|[^\s;#]*)",
    re.MULTILINE,
)


def look(reader: Reader, members: Sequence[str], bond: str = "bond0") -> JobsView:
    """Return the settings that a move of ``members`` into ``bond`` would break."""
    search = _Search(reader, members, bond)
    found: list[JobPin] = []
    for pin in search.all():
        if len(found) == MAX_PINS:
            search.doubts.append(f"more than {MAX_PINS} settings")
            break
        found.append(pin)
    return JobsView(tuple(found), search.scanned, search.unread, tuple(search.doubts))


class _Search:
    """One pass over processes and files, with its counts."""

    def __init__(self, reader: Reader, members: Sequence[str], bond: str) -> None:
        self._reader = reader
        self._members = members
        self._bond = bond
        self.scanned = self.unread = 0
        self.doubts: list[str] = []

    def all(self) -> Iterator[JobPin]:
        """Yield what is found, running jobs first."""
        before = len(self._reader.problems)
        for pid in pids(self._reader):
            if pid != os.getpid() and not elsewhere(self._reader, pid, "net"):
                yield from self._process(pid)
        yield from self._files()
        self.doubts += self._reader.problems[before:]

    def _process(self, pid: int) -> Iterator[JobPin]:
        path = f"/proc/{pid}/environ"
        try:
            with self._reader.path(path).open("rb") as file:
                data = file.read(ENVIRON_BYTES)
        except (FileNotFoundError, ProcessLookupError):
            return  # it has ended
        except OSError:
            self.unread += 1
            return
        self.scanned += 1
        if not any(name in data for name in _NAMES):
            return
        for variable, value in _variables(data):
            for member in self._pinned(variable, value):
                yield JobPin(pid, self._command(pid), variable, value, member, path)

    def _files(self) -> Iterator[JobPin]:
        for path in (*FILES, *self._reader.files(FOLDER, ".sh")):
            text = self._reader.text(path) or ""
            for variable, value in _settings(text):
                if "$" in value or "`" in value:
                    self.doubts.append(f"{path}: {variable}={value} is only known to a shell")
                    continue
                for member in self._pinned(variable, value):
                    yield JobPin(0, "", variable, value, member, path)

    def _pinned(self, variable: str, value: str) -> list[str]:
        return [m for m in self._members if pins(value, variable, m, self._bond)]

    def _command(self, pid: int) -> str:
        """Return the program and its first argument; the others may hold what is secret."""
        line = words(self._reader, pid)
        first = next((word for word in line[1:] if word and not word.startswith("-")), "")
        text = f"{line[0].rpartition('/')[2]} {first}"
        return (" ".join(text.split()) or self._reader.line(f"/proc/{pid}/comm"))[:COMMAND_LETTERS]


_NAMES = tuple(f"{name}=".encode() for name in VARIABLES)


def _variables(data: bytes) -> Iterator[tuple[str, str]]:
    for entry in data.split(b"\0"):
        key, equals, value = entry.decode("utf-8", "backslashreplace").partition("=")
        if equals and key in VARIABLES:
            yield key, value


def _settings(text: str) -> list[tuple[str, str]]:
    """Return the assignments in a shell script or an ``nccl.conf``; of one variable the last."""
    found = {match[1]: unquoted(match[2]) for match in _SETTING.finditer(text)}
    return list(found.items())
