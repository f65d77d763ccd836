"""Which table belongs to which driver."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from linkhold.decide.kernel_log import (
    broadcom,
    cloud,
    common,
    intel,
    mellanox,
    others,
    pcie,
    realtek,
    usb,
)
from linkhold.decide.kernel_log.rules import Search

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.kernel_log.rules import Table

_FAMILIES = (
    (intel.DRIVERS, intel.TABLE),
    (mellanox.DRIVERS, mellanox.TABLE),
    (broadcom.DRIVERS, broadcom.TABLE),
    (realtek.DRIVERS, realtek.TABLE),
    (cloud.ENA_DRIVERS, cloud.ENA),
    (cloud.GVE_DRIVERS, cloud.GVE),
    (cloud.VIRTIO_DRIVERS, cloud.VIRTIO),
    (cloud.HYPERV_DRIVERS, cloud.HYPERV),
    (cloud.MANA_DRIVERS, cloud.MANA),
    (cloud.VMWARE_DRIVERS, cloud.VMWARE),
    (usb.DRIVERS, usb.TABLE),
    (others.HNS_DRIVERS, others.HNS),
    (others.QLOGIC_DRIVERS, others.QLOGIC),
    (others.CHELSIO_DRIVERS, others.CHELSIO),
    (others.NFP_DRIVERS, others.NFP),
    (others.AQUANTIA_DRIVERS, others.AQUANTIA),
    (others.EMULEX_DRIVERS, others.EMULEX),
    (others.SOLARFLARE_DRIVERS, others.SOLARFLARE),
    (others.MARVELL_DRIVERS, others.MARVELL),
    (others.STMMAC_DRIVERS, others.STMMAC),
    (others.THUNDERBOLT_DRIVERS, others.THUNDERBOLT),
)


def _searched(table: Table) -> Search:
    """Put a driver's own rules among those of all: first the bus, whose lines say what they are.

    Then links, then the driver's own.
    """
    return Search(
        *pcie.TABLE, *common.PROBES, *common.BANDWIDTH, *common.LINKS, *table, *common.QUEUES
    )


TABLES: Mapping[str, Search] = MappingProxyType({
    driver: search
    for drivers, search in [(drivers, _searched(table)) for drivers, table in _FAMILIES]
    for driver in drivers
})  # fmt: skip
"""What each driver's texts are searched for."""
