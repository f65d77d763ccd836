"""What a scenario gets as its first argument."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.lab import kernel
from support.topology import TwoSwitches

WIRED = Path("/run/lab/topology.json")


def _new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="box-"))


@dataclass
class Box:
    """One scenario's own machine: network, processes, /run, /tmp and /var are nobody else's.

    ``tmp`` is a folder for files. The files of the host are there to read.
    """

    tmp: Path = field(default_factory=_new_folder)

    def two_switches(self, **options: Any) -> TwoSwitches:
        """Build the topology of ``support.topology`` around this machine: eth0 and eth1.

        A guest with systemd has it from before its boot, as a computer has its NICs.
        """
        if WIRED.exists():
            found = json.loads(WIRED.read_text(encoding="ascii"))
            return TwoSwitches(**{**found, "switches": tuple(found["switches"])})
        return TwoSwitches.create(**options)

    def sysctl(self, name: str, value: object) -> None:
        """Write one sysctl, named with dots or (where a name has dots itself) slashes."""
        path = name if "/" in name else name.replace(".", "/")
        Path("/proc/sys", path).write_text(str(value), encoding="ascii")

    def kernel_log(self) -> list[str]:
        """Return the kernel's messages since the scenario began, so far."""
        return self._log.all()

    def __post_init__(self) -> None:
        self._log = kernel.Log()
