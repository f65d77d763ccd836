"""Reading small text files below a root folder, bounded, and telling absent from unreadable."""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_BYTES = 1 << 20
FOLDER_ENTRIES = 4096


class Reader:
    """Reads files of one host, found below ``root``, and keeps what it may not read.

    ``problems`` are those, a line each. An absent file is no problem: it reads as None.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.problems: list[str] = []

    def path(self, name: str) -> Path:
        """Return where the host's absolute path ``name`` lies."""
        return self.root / name.lstrip("/")

    def raw(self, name: str, limit: int = FILE_BYTES) -> bytes | None:
        """Return at most ``limit`` bytes of a file; None when it is absent or may not be read."""
        try:
            with self.path(name).open("rb") as file:
                return file.read(limit)
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError, IsADirectoryError):
            return None
        except OSError as error:
            self.problems.append(f"{name}: {error.strerror}")
            return None
        except ValueError:  # a name from another file, with a NUL byte in it
            return None

    def text(self, name: str) -> str | None:
        """Return a file's text, bytes that are no UTF-8 shown as escapes; None as for ``raw``."""
        data = self.raw(name)
        return None if data is None else data.decode("utf-8", "backslashreplace")

    def chosen(self, name: str) -> str | None:
        """Return the text of a regular file whose path a user chose; None as for ``raw``.

        Anything else is not even opened: a FIFO would be waited for, and to open a device may do
        something (of /dev/watchdog: end the host). Nor are files of the kernel, which are regular
        ones by name: /proc/kmsg waits, and takes from syslog what it gives.
        """
        try:
            place = os.open(self.path(name), os.O_PATH | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                self.problems.append(f"{name}: is no regular file")
                return None
            if _is_of_kernel(place):
                self.problems.append(f"{name}: is a file of the kernel")
                return None
            with open(f"/proc/self/fd/{place}", "rb") as file:  # noqa: PTH123 - a descriptor
                return file.read(FILE_BYTES).decode("utf-8", "backslashreplace")
        except OSError as error:
            self.problems.append(f"{name}: {error.strerror}")
            return None
        finally:
            os.close(place)

    def line(self, name: str) -> str:
        """Return a file of one line, without the spaces around; empty when there is none.

        Attributes of sysfs fail with EINVAL while they have no meaning: that is no problem.
        """
        try:
            with self.path(name).open("rb") as file:
                return file.read(4096).decode("utf-8", "backslashreplace").strip(" \t\r\n\0")
        except PermissionError:
            self.problems.append(f"{name}: may not be read")
        except (OSError, ValueError):
            pass
        return ""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; none when it is absent or may not be read.

        At most 4096, and a problem when there are more.
        """
        try:
            with os.scandir(self.path(folder)) as entries:
                found = sorted(entry.name for entry in islice(entries, FOLDER_ENTRIES + 1))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return []
        except OSError as error:
            self.problems.append(f"{folder}: {error.strerror}")
            return []
        if len(found) > FOLDER_ENTRIES:
            self.problems.append(f"{folder}: more than {FOLDER_ENTRIES} entries")
        return found

    def files(self, folder: str, suffix: str = "") -> Iterator[str]:
        """Yield the host's paths of what lies in a folder and ends in ``suffix``, sorted."""
        for name in self.names(folder):
            if name.endswith(suffix):
                yield f"{folder.rstrip('/')}/{name}"

    def link(self, name: str) -> str:
        """Return what a symbolic link says; empty when it is none or may not be read."""
        try:
            return str(self.path(name).readlink())
        except (OSError, ValueError):
            return ""

    def exists(self, name: str) -> bool:
        """Whether there is such a file or link; also a link to nowhere is one."""
        return os.path.lexists(self.path(name))


def _is_of_kernel(place: int) -> bool:
    """Whether a descriptor is of a file system that keeps nothing: procfs, sysfs, tracefs ...

    Those have neither blocks nor inodes to tell of (simple_statfs() in the kernel's fs/libfs.c).
    """
    of = os.fstatvfs(place)
    return not of.f_blocks and not of.f_files


def pairs(text: str, comment: str = "#") -> Iterator[tuple[str, str]]:
    """Yield the ``KEY=VALUE`` lines of a text in order, without comments and outer quotes."""
    for raw in text.splitlines():
        line = raw.strip()
        key, equals, value = line.partition("=")
        if equals and not line.startswith(comment):
            yield key.strip(), unquoted(value.strip())


def unquoted(value: str) -> str:
    """Return ``value`` without one pair of quotes around it."""
    quotes = ("'", '"')
    if len(value) > 1 and value[0] == value[-1] and value[0] in quotes:
        return value[1:-1]
    return value


def sections(text: str) -> dict[str, dict[str, list[str]]]:
    """Return an INI text of systemd or GLib as section -> key -> values, in order.

    Keys may repeat in systemd's files; an empty value there clears the ones before.
    """
    found: dict[str, dict[str, list[str]]] = {}
    current = found.setdefault("", {})
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            current = found.setdefault(line[1:-1], {})
        elif "=" in line and line[0] not in "#;":
            key, _, value = line.partition("=")
            _add(current.setdefault(key.strip(), []), value.strip())
    return found


def _add(values: list[str], value: str) -> None:
    if value:
        values.append(value)
    else:
        values.clear()
