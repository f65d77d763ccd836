"""Files of firewall rules that name an interface: a move into a bond does not change them.

Only files are read, no rules in force: those of a boot come from these.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.survey.files import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILES = (
    "/etc/nftables.conf",
    "/etc/sysconfig/nftables.conf",
    "/etc/iptables/rules.v4",
    "/etc/iptables/rules.v6",
    "/etc/sysconfig/iptables",
    "/etc/sysconfig/ip6tables",
)
FOLDERS = (("/etc/nftables.d", ".nft"), ("/etc/firewalld/zones", ".xml"), ("/etc/ufw", ".rules"))


def mentions(names: Sequence[str], base: Path = Path("/")) -> tuple[tuple[str, str], ...]:
    """Return each file that names one of the interfaces as a word, with that name."""
    reader = Reader(base)
    return tuple((file, name) for file in _files(reader) for name in _named(reader, file, names))


def _files(reader: Reader) -> Iterator[str]:
    yield from FILES
    for folder, suffix in FOLDERS:
        yield from reader.files(folder, suffix)


def _named(reader: Reader, file: str, names: Sequence[str]) -> Iterator[str]:
    lines = (reader.text(file) or "").splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    for name in names:
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text):
            yield name
