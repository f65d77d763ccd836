"""Whether a block device hangs on the network, by its place in sysfs.

``/sys/dev/block/<major>:<minor>`` leads to the device; mappings (LVM, RAID, crypt) name what is
below them in ``slaves``. iSCSI devices lie below ``sessionN`` (scsi_transport_iscsi.c), NVMe over
Fabrics has ``transport`` and ``address`` (drivers/nvme/host/sysfs.c), nbd and rbd have their names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.survey.files import Reader

DEPTH = 8
_SESSION = re.compile(r"(.*/session\d+)(?:/|$)")
_TRADDR = re.compile(r"traddr=([^,\s]+)")

Remote = tuple[str, str]
"""How it is reached (``iscsi``, ``nvme-tcp``, ``nbd``, ``rbd``), and the server, maybe empty."""


def remote(reader: Reader, device: str, source: str) -> tuple[Remote, ...] | None:
    """Return how the device of a mount hangs on the network: empty for local, None for unknown.

    ``device`` is major:minor; Btrfs and others show 0:N there, then ``source`` (/dev/sda2) counts.
    """
    folder = _folder(reader, device, source)
    if folder is None:
        return None
    found = dict.fromkeys(_below(reader, folder, DEPTH))
    return tuple(found)


def _folder(reader: Reader, device: str, source: str) -> Path | None:
    start = reader.path(f"/sys/dev/block/{device}")
    try:
        if device.startswith("0:"):
            if not source.startswith("/dev/"):
                return None
            base = Path(os.path.realpath(reader.path(source))).name
            start = reader.path(f"/sys/class/block/{base}")
        return Path(os.path.realpath(start, strict=True))
    except (OSError, ValueError):  # also for what is no name: users name what they mount
        return None


def _below(reader: Reader, folder: Path, depth: int) -> Iterator[Remote]:
    found = _remote_at(reader, folder)
    if found:
        yield from found
        return
    # A partition has its slaves at the whole device's folder when it has any.
    for entry in _entries(folder / "slaves"):
        if depth:
            yield from _below(reader, Path(os.path.realpath(entry)), depth - 1)


def _remote_at(reader: Reader, folder: Path) -> list[Remote]:
    session = _SESSION.match(str(folder))
    if session:
        return [("iscsi", _iscsi_server(Path(session[1])))]
    for name in (folder.name, folder.parent.name):
        if re.fullmatch(r"nbd\d+(p\d+)?", name):
            return [("nbd", "")]
        if re.fullmatch(r"rbd\d+(p\d+)?", name):
            return [("rbd", "")]
    return _fabrics(reader, folder)


def _iscsi_server(session: Path) -> str:
    for path in sorted(session.glob("connection*/iscsi_connection/connection*/")):
        for name in ("persistent_address", "address"):
            text = _read(path / name)
            if text:
                return text
    return ""


def _fabrics(reader: Reader, folder: Path) -> list[Remote]:
    """A namespace lies below its controller, or below a subsystem that links controllers."""
    sysfs = reader.path("/sys")
    found = []
    for parent in (folder, *folder.parents):
        if parent == sysfs or "nvme" not in parent.name:
            break
        for controller in (parent, *sorted(parent.glob("nvme*[0-9]"))):
            transport = _read(controller / "transport")
            if transport in {"tcp", "rdma"}:
                address = _TRADDR.search(_read(controller / "address"))
                found.append((f"nvme-{transport}", address[1] if address else ""))
    return found


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_bytes()[:4096].decode("utf-8", "backslashreplace").strip()
    except OSError:
        return ""
