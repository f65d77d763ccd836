"""``linkhold`` with the kernel's supplies in a folder, and a FIFO in place of their uevents.

No machine without a supply of its own can make the kernel tell of one. What is replaced is the
socket alone. The folder and the FIFO are named by LINKHOLD_BENCH_SUPPLIES and _POKE.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from linkhold.cli import main
from linkhold.daemon import power
from linkhold.daemon.power_sources import KernelPlace


class Fifo:
    """Events from a FIFO."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def fileno(self) -> int:
        """Return what is readable while an event waits."""
        return self._fd

    def changed(self) -> bool:
        """Take events in."""
        return bool(os.read(self._fd, 4096))

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


if __name__ == "__main__":
    place = KernelPlace(
        Path(os.environ["LINKHOLD_BENCH_SUPPLIES"]),
        Fifo(os.environ["LINKHOLD_BENCH_POKE"]),  # type: ignore[arg-type]
    )
    power.PowerKeeper.__init__.__defaults__ = (place,)
    sys.exit(main())
