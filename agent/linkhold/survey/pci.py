"""Which interfaces hang on which PCI functions, read from the places of interfaces in sysfs.

``/sys/class/net/eth0`` is a link to a place such as
``../../devices/pci0000:40/0000:40:01.0/0000:41:00.0/net/eth0``: it names the NIC and every bridge
and port above it. No device is asked and no lock is taken.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from linkhold.model.kernel_log import PciView

if TYPE_CHECKING:
    from linkhold.survey.files import Reader

NET = "/sys/class/net"
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_USB = re.compile(r"/usb\d+/")


def look(reader: Reader) -> PciView:
    """Return the PCI tree above this network namespace's wired interfaces.

    The controller above a USB NIC is left out, since it carries any number of other devices. So
    is what is wireless.
    """
    nics: dict[str, tuple[str, ...]] = {}
    ports: dict[str, tuple[str, ...]] = {}
    for name in reader.names(NET):
        place = reader.link(f"{NET}/{name}")
        if _USB.search(place) or reader.exists(f"{NET}/{name}/phy80211"):
            continue
        *above, own = [part for part in place.split("/") if _ADDRESS.fullmatch(part)] or [""]
        if own:
            nics[own] = (*nics.get(own, ()), name)
        for port in above:
            ports[port] = (*ports.get(port, ()), name)
    return PciView(MappingProxyType(nics), MappingProxyType(ports))
