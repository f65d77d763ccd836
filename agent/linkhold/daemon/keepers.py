"""What looks after the host beside the link sensor: each in a file of its own, here as one.

All belong to the loop's thread, report what the core should know, and are told of the network
before the core decides about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.daemon.bonds import BondKeeper
from linkhold.daemon.keepalive import KeepaliveKeeper
from linkhold.daemon.kernel_log import KernelLogKeeper
from linkhold.daemon.metadata import MetadataKeeper
from linkhold.daemon.notices import NoticesKeeper
from linkhold.daemon.power import PowerKeeper
from linkhold.daemon.prober import Prober
from linkhold.daemon.reach import ReachKeeper
from linkhold.daemon.uplinks import UplinkKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from linkhold.config.settings import Settings
    from linkhold.decide.readings import Reading
    from linkhold.model import HostNetwork, NodeState, WayOut


@dataclass(frozen=True, slots=True)
class Folders:
    """Where an agent keeps what is of this boot (``run``), and what outlives it (``state``)."""

    run: Path
    state: Path


class Keepers:
    """Bonds, their probes, uplinks, keepalive, the kernel's log and what lies beyond."""

    def __init__(
        self,
        report: Callable[[Reading], None],
        machine_id: str,
        config_file: Path | None,
        folders: Folders,
        ways: Callable[[], tuple[WayOut, ...]],
    ) -> None:
        self._prober = Prober(report, machine_id)
        self._uplinks = UplinkKeeper(report, machine_id)
        self._bonds = BondKeeper(report, config_file, self._prober.test)
        self._keepalive = KeepaliveKeeper(report, folders.state)
        self._kernel_log = KernelLogKeeper(report, folders.run)
        self._reach = ReachKeeper(report, machine_id, ways)
        self._power = PowerKeeper(report)
        self._notices = NoticesKeeper(report)
        self._metadata = MetadataKeeper(report, machine_id, ways)

    def begin(self, state: NodeState, *, new_boot: bool) -> None:
        """Take in what the agent before this one left; ``new_boot``: before the last boot."""
        self._bonds.begin(state)
        self._kernel_log.begin(state, new_boot=new_boot)
        self._kernel_log.start()
        self._power.begin(state)
        self._notices.begin(state)
        self._reach.begin(state)
        self._metadata.begin(state)

    def see(self, host: HostNetwork) -> None:
        """Take in the network as it is now. A lost carrier is acted upon before it is told."""
        self._prober.see(host)
        self._uplinks.see(host)
        self._bonds.see(host)
        self._kernel_log.see(host)
        self._reach.see(host)

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        self._prober.configure(settings)
        self._uplinks.configure(settings)
        self._bonds.configure(settings)
        self._keepalive.configure(settings)
        self._reach.configure(settings)
        self._power.configure(settings)
        self._notices.configure(settings)
        self._metadata.configure(settings)

    @property
    def counters(self) -> dict[str, int]:
        """What they count."""
        return {
            **self._prober.counters,
            **self._uplinks.counters,
            **self._bonds.counters,
            **self._keepalive.counters,
            **self._kernel_log.counters,
            **self._reach.counters,
            **self._power.counters,
            **self._notices.counters,
            **self._metadata.counters,
        }

    @property
    def heard(self) -> Mapping[str, int]:
        """When each source of power last gave a sign of life, CLOCK_MONOTONIC in ns."""
        return self._power.heard

    async def stop(self) -> None:
        """End; what they did to the host stays, as each of them says."""
        self._power.stop()
        self._notices.stop()
        self._keepalive.stop()
        self._kernel_log.stop()
        self._reach.stop()
        self._metadata.stop()
        self._prober.stop()
        await self._uplinks.stop()
        self._bonds.stop()
