"""Received and sent frames of a network interface, read without the kernel's RTNL lock."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from linkhold.decide.probing import Counters

SYSFS = Path("/sys/class/net")
MOST_BYTES = 32


class PortCounters:
    """The counters of one interface: files of sysfs, kept open.

    Some NICs bring their counters up to date once a second only: a silence is then noticed later,
    never earlier. ``multicast`` is part of ``rx_packets`` (linux/if_link.h) and is what others
    say to everybody, so it does not count as received.
    """

    def __init__(self, name: str, index: int) -> None:
        """Open the files. Raises OSError where there are none, or those of another namespace."""
        self.name = name
        self.index = index
        folder = SYSFS / name
        if int((folder / "ifindex").read_text()) != index:
            raise FileNotFoundError(f"{folder} shows another network namespace")
        self._files: list[int] = []
        try:
            for counter in ("rx_packets", "multicast", "tx_packets"):
                path = folder / "statistics" / counter
                self._files.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise

    def read(self) -> Counters:
        """Return the counters now. Raises OSError when the interface is gone."""
        received, multicast, sent = (int(os.pread(f, MOST_BYTES, 0)) for f in self._files)
        return Counters(self.name, received - multicast, sent)

    def close(self) -> None:
        """Close the files; a second call does nothing."""
        files, self._files = self._files, []
        for file in files:
            with contextlib.suppress(OSError):
                os.close(file)
