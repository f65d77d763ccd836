"""The host's side of a guest with systemd: a machine with a disk, that can be rebooted."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Literal

from support.lab import machine
from support.lab.host import LOGS, Guest, Lab

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

Manager = Literal["none", "networkd", "NetworkManager"]
PROGRAMS: dict[Manager, tuple[tuple[str, str], ...]] = {
    "none": (),
    "networkd": (("networkctl", "systemd"),),
    "NetworkManager": (("nmcli", "network-manager"),),
}


class Machine(Lab):
    """A machine with systemd, two NICs and a disk; scenarios run in its own namespaces.

    ``manager`` is enabled at its first boot, when it also gets ``files`` (path to text; those of
    netplan and NetworkManager's profiles are readable by root alone). With ``dhcp_lease_s`` the
    gateway gives addresses, from 10.0.0.2 on. With ``tap``, the descriptor of a TAP device, it has
    a third NIC, vec0, at the other end. Boots at the first scenario::

        with Machine("networkd", {"/etc/systemd/network/10-eth0.network": ...}) as node:
            node.run(first)
            node.reboot()
            node.run(second)
    """

    def __init__(
        self,
        manager: Manager = "none",
        files: Mapping[str, str] | None = None,
        *,
        dhcp_lease_s: int = 0,
        tap: int | None = None,
        logs: Path = LOGS,
    ) -> None:
        super().__init__(logs)
        self._tap = tap
        _check(manager, dhcp_lease_s)
        self._setup = {"manager": manager, "files": dict(files or {}), "dhcp_lease_s": dhcp_lease_s}

    def boot(self) -> Guest:
        """Boot now; the first scenario would do it otherwise."""
        if self._disk is None:
            self._disk = machine.new_disk()
        return super().boot()

    def reboot(self) -> None:
        """Shut down in good order and boot again."""
        self.power_off()
        self.boot()

    def power_off(self) -> None:
        """Shut down in good order; the next scenario boots it again."""
        if self._guest is not None:
            self._guest.power_off()
            self.close()

    def cut_power(self) -> None:
        """End the guest at once and boot again: what was not synced to the disk may be lost."""
        self.boot()

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.discard()

    def discard(self) -> None:
        """End the guest and its disk."""
        self.close()
        if self._disk is not None:
            os.close(self._disk)
            self._disk = None


def _check(manager: Manager, dhcp_lease_s: int) -> None:
    machine.check()
    needed = [*PROGRAMS[manager], *([("dnsmasq", "dnsmasq-base")] if dhcp_lease_s else [])]
    for program, package in needed:
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            raise machine.LabUnavailable(f"{program} is missing: apt-get install {package}")
