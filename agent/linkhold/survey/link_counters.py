"""The counters of every link by one dump of rtnetlink: no file of sysfs, so of our namespace."""

from __future__ import annotations

import socket
import struct

from linkhold.rtnl.framing import RTM_GETLINK
from linkhold.survey import routes
from linkhold.survey.links import IFINFO, IFLA_IFNAME

IFLA_STATS64 = 23
NAMES = (
    "rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_dropped",
    "tx_dropped", "multicast", "collisions", "rx_length_errors", "rx_over_errors",
    "rx_crc_errors", "rx_frame_errors", "rx_fifo_errors", "rx_missed_errors",
    "tx_aborted_errors", "tx_carrier_errors", "tx_fifo_errors", "tx_heartbeat_errors",
    "tx_window_errors",
)  # fmt: skip
"""The fields of ``struct rtnl_link_stats64`` in their order (linux/if_link.h)."""
STATS = struct.Struct(f"={len(NAMES)}Q")


def counters() -> dict[str, dict[str, int]]:
    """Return the counters of each link by name; raises :class:`routes.NoAnswer`."""
    found = {}
    for data in routes.listed(RTM_GETLINK, IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        places = routes.parts(data, IFINFO.size)
        if IFLA_IFNAME not in places or IFLA_STATS64 not in places:
            continue
        start, end = places[IFLA_IFNAME]
        name = data[start:end].partition(b"\0")[0].decode("utf-8", "backslashreplace")
        if places[IFLA_STATS64][1] - places[IFLA_STATS64][0] >= STATS.size:
            values = STATS.unpack_from(data, places[IFLA_STATS64][0])
            found[name] = dict(zip(NAMES, values, strict=True))
    return found
