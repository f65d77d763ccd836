"""Driver and speed of a network interface by the SIOCETHTOOL ioctl.

Every call may wait for the kernel's RTNL lock, which a slow driver can hold for seconds: call
them from a thread, never from the loop. They ask the driver for nothing but its name and the
speed it knows: no module EEPROM, no registers.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 0x03
ETHTOOL_GLINKSETTINGS = 0x4C
SPEED_UNKNOWN = 0xFFFFFFFF

IFNAMSIZ = 16
_IFREQ = struct.Struct(f"={IFNAMSIZ}s24s")  # struct ifreq: the name and a 24-byte union
_POINTER = struct.Struct("@P")

# struct ethtool_drvinfo: cmd, driver, version, fw_version, bus_info, erom_version and the rest.
_DRVINFO = struct.Struct("=I32s32s32s32s32s12s5I")

# struct ethtool_link_settings: cmd, speed, seven bytes, link_mode_masks_nwords, and the rest.
_LINK_SETTINGS = struct.Struct("=II7sb4s7I")
MASKS = 3  # supported, advertising, lp_advertising


def is_vf(name: str) -> bool:
    """Tell whether ``name`` is a virtual function of SR-IOV (sysfs-bus-pci: physfn)."""
    return Path(f"/sys/class/net/{name}/device/physfn").exists()


@dataclass(frozen=True, slots=True)
class DriverInfo:
    """What a driver says of itself and of the card; empty where unknown."""

    driver: str = ""
    version: str = ""
    firmware: str = ""
    bus: str = ""


def driver_info(name: str) -> DriverInfo:
    """Return driver, versions and bus address of interface ``name``. May block."""
    request = _DRVINFO.pack(ETHTOOL_GDRVINFO, *[b""] * 6, *[0] * 5)
    answer = _ethtool(name, request)
    if answer is None:
        return DriverInfo()
    return DriverInfo(*map(_text, _DRVINFO.unpack(answer)[1:5]))


def driver_and_bus(name: str) -> tuple[str, str]:
    """Return driver and bus address of interface ``name``; empty where unknown. May block."""
    info = driver_info(name)
    return info.driver, info.bus


def speed_mbps(name: str) -> int | None:
    """Return the speed of interface ``name`` in Mbit/s; None where unknown. May block."""
    # The first call only learns how many words the masks take; the kernel says so as a negative
    # number and wants it back as a positive one (ethtool_get_link_ksettings).
    answer = _link_settings(name, 0)
    words = 0 if answer is None else -_LINK_SETTINGS.unpack_from(answer)[3]
    if words <= 0:
        return None
    answer = _link_settings(name, words)
    if answer is None:
        return None
    speed = int(_LINK_SETTINGS.unpack_from(answer)[1])
    return speed if 0 < speed < SPEED_UNKNOWN else None


def _link_settings(name: str, words: int) -> bytes | None:
    head = _LINK_SETTINGS.pack(ETHTOOL_GLINKSETTINGS, 0, b"", words, b"", *[0] * 7)
    return _ethtool(name, head + bytes(MASKS * words * 4))


def _ethtool(name: str, request: bytes) -> bytes | None:
    """Make one ethtool call and return the buffer as the kernel left it; None on any error."""
    encoded = name.encode()
    if not encoded or len(encoded) >= IFNAMSIZ:
        return None
    buffer = array.array("B", request)
    ifreq = _IFREQ.pack(encoded, _POINTER.pack(buffer.buffer_info()[0]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as endpoint:
        try:
            fcntl.ioctl(endpoint, SIOCETHTOOL, ifreq)
        except OSError:
            return None
    return buffer.tobytes()


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "backslashreplace")
