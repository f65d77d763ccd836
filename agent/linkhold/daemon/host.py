"""Facts about this host and this process that the agent needs once, or now and then."""

from __future__ import annotations

import ctypes
import secrets
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.actuators.journal import boot_id
from linkhold.model import Identity, Moment

if TYPE_CHECKING:
    from linkhold.config.settings import Settings

TIME_ERROR = 5
"""Return value of ntp_adjtime(3) when the clock is not synchronised (sys/timex.h)."""
TIMEX_BYTES = 256
"""More than sizeof(struct timex) on every architecture (208 on x86-64)."""


def now() -> Moment:
    """Return this instant on both clocks."""
    return Moment(time.monotonic_ns(), time.time())


def machine_id() -> str:
    """Return the machine id, empty on a host that has none."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


def seed(machine_id: str) -> int:
    """Return where this node's dice begin: elsewhere than another's, and the same at each start."""
    return zlib.crc32(machine_id.encode()) or 1


def identify(settings: Settings, node: str) -> Identity:
    """Return who this agent is, with a new random session."""
    return Identity(
        site=settings.site,
        node=node,
        machine_id=machine_id(),
        boot_id=boot_id(),
        session=secrets.token_hex(6),
        started=now(),
    )


class ClockCheck:
    """Asks the kernel whether the wall clock is synchronised (adjtimex(2), read only)."""

    def __init__(self) -> None:
        self._call = getattr(ctypes.CDLL(None), "ntp_adjtime", None)
        self._buffer = ctypes.create_string_buffer(TIMEX_BYTES)  # modes 0: read only

    def synced(self) -> bool | None:
        """Return True or False, None where the kernel does not say."""
        if self._call is None:
            return None
        ctypes.memset(self._buffer, 0, TIMEX_BYTES)
        result = self._call(self._buffer)
        return None if result < 0 else result != TIME_ERROR
