"""The one of the two kernel log sensors that works here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.model import Unavailable
from linkhold.sensors.journal import JournalSensor
from linkhold.sensors.kmsg import KmsgSensor

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from linkhold.model.kernel_log import KernelLogReading, Position


def start(
    boot_id: str,
    position: Position | None,
    report: Callable[[KernelLogReading], None],
    loop: asyncio.AbstractEventLoop,
) -> KmsgSensor | JournalSensor:
    """Follow the kernel's log by /dev/kmsg, else by journald; ``report`` is called on the loop.

    Raises Unavailable with both reasons when neither can be read.
    """
    kmsg = KmsgSensor(boot_id, position)
    try:
        kmsg.start(report, loop)
    except Unavailable as closed:
        journal = JournalSensor(boot_id, position)
        try:
            journal.start(report, loop)
        except Unavailable as absent:
            raise Unavailable(f"kernel log: {closed}; {absent}") from None
        return journal
    return kmsg
