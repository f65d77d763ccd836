"""Whether the system runs from file systems that come over the network, and over which interface.

Told by /proc/self/mountinfo, the place of block devices in sysfs, and the kernel's command line
(nfsroot.rst, dracut.cmdline(7), initramfs-tools(7)). The interface is the one that the kernel's
routing table names for the server; host names are not looked up.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from linkhold.model.survey import Known, RemoteMount, RootView
from linkhold.survey import disks, mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.survey.files import Reader
    from linkhold.survey.mounts import Mount

SYSTEM = ("/", "/usr", "/var", "/etc")
NETWORK_KINDS = {
    "nfs": "nfs", "nfs4": "nfs", "cifs": "cifs", "smb3": "cifs", "ceph": "ceph", "afs": "afs",
    "lustre": "lustre", "gpfs": "gpfs", "beegfs": "beegfs", "glusterfs": "glusterfs",
    "fuse.glusterfs": "glusterfs", "fuse.ceph": "ceph", "fuse.sshfs": "sshfs", "ncpfs": "ncpfs",
}  # fmt: skip
LOCAL_KINDS = frozenset({"tmpfs", "ramfs", "rootfs", "virtiofs", "squashfs"})
TRANSPORTS_OF_9P = frozenset({"tcp", "rdma"})  # virtio, fd and xen stay on this machine
DECISIVE = ("root=/dev/nfs", "root=nfs", "root=iscsi", "root=nbd", "root=cifs", "root=fcoe",
            "root=dhcp", "nfsroot=", "netroot=", "boot=nfs")  # fmt: skip
HINTS = ("ip=", "rd.neednet", "BOOTIF=", "netboot=", "rd.iscsi", "ISCSI_", "iscsi_", "root=live:")
_HOST = re.compile(r"\[([^\]]+)\]|([^\s:/,@=]+)")


def look(reader: Reader, interface_to: Callable[[str], str]) -> RootView:
    """Return what of the system's own file systems hangs on the network.

    ``interface_to`` names the interface towards an address (:func:`routes.interface_to`).
    """
    before = len(reader.problems)
    text = reader.text("/proc/self/mountinfo")
    words = (reader.text("/proc/cmdline") or "").split()
    decisive = tuple(word for word in words if word.startswith(DECISIVE))
    hints = tuple(word for word in words if word.startswith(HINTS))
    table = list(mounts.parse(text or ""))
    search = _Search(reader, table, interface_to)
    found = tuple(search.remote())
    doubts = [*search.doubts, *reader.problems[before:]]
    if mounts.at(table, "/") is None:
        doubts.append("/proc/self/mountinfo names no root file system")
    if decisive and not found:
        doubts.append(f"the kernel's command line says {' '.join(decisive)}, the mounts do not")
    verdict = Known.YES if found else Known.UNKNOWN if doubts else Known.NO
    return RootView(verdict, found, (*decisive, *hints), tuple(doubts))


class _Search:
    """Goes through the system's mounts; ``doubts`` are what could not be told."""

    def __init__(
        self, reader: Reader, table: list[Mount], interface_to: Callable[[str], str]
    ) -> None:
        self._reader = reader
        self._table = table
        self._interface_to = interface_to
        self.doubts: list[str] = []

    def remote(self) -> Iterator[RemoteMount]:
        for point in SYSTEM:
            mount = mounts.at(self._table, point)
            for how, server in self._hows(mount) if mount is not None else ():
                source = mount.source if mount is not None else ""
                yield self._placed(point, how, source, server)

    def _hows(self, mount: Mount) -> tuple[disks.Remote, ...]:
        """Return how a mount hangs on the network: nothing for local, and a doubt if unknown."""
        if mount.fstype in NETWORK_KINDS:
            return ((NETWORK_KINDS[mount.fstype], _server(mount)),)
        if mount.fstype == "9p":
            on_network = mount.options.get("trans") in TRANSPORTS_OF_9P
            return (("9p", _server(mount)),) if on_network else ()
        if mount.fstype in LOCAL_KINDS:
            return ()
        if mount.fstype == "overlay":
            return self._layers(mount)
        return self._disk(mount)

    def _disk(self, mount: Mount) -> tuple[disks.Remote, ...]:
        found = disks.remote(self._reader, mount.device, mount.source)
        if found is None:
            self.doubts.append(f"{mount.point} ({mount.fstype}, {mount.source}): no disk found")
        return found or ()

    def _layers(self, overlay: Mount) -> tuple[disks.Remote, ...]:
        """Judge an overlay by the mounts that its layers lie on, where they can be seen."""
        paths = overlay.options.get("lowerdir", "").split(":")
        paths.append(overlay.options.get("upperdir", ""))
        found: list[disks.Remote] = []
        for path in filter(None, paths):
            below = [m for m in self._table if m.point != "/" and _is_in(path, m.point)]
            mount = max(below, key=lambda m: len(m.point), default=None)
            if mount is None or mount.fstype == "overlay":
                self.doubts.append(f"{overlay.point} is an overlay, its layer {path} is not seen")
            else:
                found += self._hows(mount)
        return tuple(found)

    def _placed(self, point: str, how: str, source: str, server: str) -> RemoteMount:
        try:
            address = str(ipaddress.ip_address(server.partition("%")[0]))
            name = self._interface_to(address)
        except ValueError:
            reason = f"no address of the server is known ({server or source})"
            return RemoteMount(point, how, source, server, reason=reason)
        except OSError as error:
            return RemoteMount(point, how, source, server, reason=f"{server}: {error}")
        carriers = tuple(dict.fromkeys(_with_lowers(self._reader, name, 8)))
        return RemoteMount(point, how, source, address, name, carriers)


def _server(mount: Mount) -> str:
    """Return the server: ``addr=`` of NFS and CIFS, ``mon_addr=`` of Ceph, else the source."""
    for option in ("addr", "mon_addr"):
        if mount.options.get(option):
            return _host(mount.options[option])
    return _host(mount.source.lstrip("/"))


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        found = _HOST.match(text)
    return "" if found is None else found[1] or found[2]


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _with_lowers(reader: Reader, name: str, depth: int) -> Iterator[str]:
    yield name
    for entry in reader.names(f"/sys/class/net/{name}") if depth else ():
        if entry.startswith("lower_"):
            yield from _with_lowers(reader, entry.removeprefix("lower_"), depth - 1)
