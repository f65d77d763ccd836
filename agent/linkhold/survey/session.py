"""From where the operator is logged in over SSH: that must still work after a change."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path

from linkhold.survey.files import Reader

VARIABLES = ("SSH_CONNECTION", "SSH_CLIENT")
"""Both begin with the client's address (ssh(1))."""
MOST_ANCESTORS = 32
ENVIRON_BYTES = 1 << 18
PARENT_FIELD = 1
"""Of /proc/PID/stat, counted from behind the name (proc(5), field 4)."""


def client(pid: int = 0, base: Path = Path("/")) -> str:
    """Return the address of the SSH client above process ``pid`` (ours), empty for none.

    sudo drops the variables; a shell further up still has them.
    """
    reader = Reader(base)
    one = pid or os.getpid()
    for _ in range(MOST_ANCESTORS):
        data = reader.raw(f"/proc/{one}/environ", ENVIRON_BYTES) or b""
        if address := _address(data.decode("utf-8", "replace")):
            return address
        one = _parent(reader, one)
        if one <= 1:
            break
    return ""


def _address(environ: str) -> str:
    words = dict(one.partition("=")[::2] for one in environ.split("\0"))
    for variable in VARIABLES:
        address = words.get(variable, "").partition(" ")[0]
        try:
            ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            continue
        return address
    return ""


def _parent(reader: Reader, pid: int) -> int:
    fields = (reader.text(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    parent = fields[PARENT_FIELD] if len(fields) > PARENT_FIELD else ""
    return int(parent) if re.fullmatch("[0-9]{1,10}", parent) else 0
