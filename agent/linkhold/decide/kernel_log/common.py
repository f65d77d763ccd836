"""What every NIC driver may say: the network core, phylib and phylink, probing, PCI.

Sources: net/sched/sch_generic.c (dev_watchdog), drivers/net/phy/phy.c and phylink.c,
drivers/base/dd.c, drivers/pci/pci.c.
"""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

LINKS = (
    *r.group(
        "link", r.LINK_UP, "the link carries again",
        "^nic*link is up", "^link is up", "^link up", "^device link is up", "^physical link is up",
        "^port * link up", "^carrier on", "^link event: state up",
    ),
    *r.group(
        "link", r.LINK_DOWN, "the link is lost",
        "^nic*link is down", "^link is down", "^link down", "^device link is down",
        "^physical link is down", "^port * link down", "^link event: state down", "^carrier off",
        "^link is lost",
    ),
)  # fmt: skip

QUEUES = (
    *r.group(
        "net core", r.TX_TIMEOUT, "a transmit queue is stuck",
        "netdev watchdog:*timed out",
        "transmit timed out", "transmit timeout", "transmission timeout", "tx timed out",
        "tx timeout", "tx watchdog timeout", "tx hang", "tx unit hang",
        "timeout on tx queue", "transmit queue * timed out",
    ),
    *r.group("driver", r.RESET, "the driver resets the card", "^reset adapter", "^resetting"),
)  # fmt: skip

PROBES = r.group(
    "driver core", r.HARDWARE_ERROR, "the driver could not take the card",
    "^probe of * failed with error", "^probe with driver * failed with error",
)  # fmt: skip

BANDWIDTH = r.group(
    "pci", r.DEGRADED, "the slot gives less than the card can use",
    "available pcie bandwidth, limited by",
    "pci-express bandwidth available for this card is not sufficient",
    "bandwidth available for this device may be insufficient",
)  # fmt: skip

GENERIC = (*QUEUES[:1], *LINKS, *QUEUES[1:])
"""For drivers without a table: only with bus and interface in front."""

PLAIN = (
    *QUEUES[:1],
    *r.group("link", r.LINK_UP, "the link carries again", "^link up", "^link is up"),
    *r.group("link", r.LINK_DOWN, "the link is lost", "^link down", "^link is down"),
    *r.group("link", r.LINK_UP, "the link carries again", "^nic link is up"),
    *r.group("link", r.LINK_DOWN, "the link is lost", "^nic link is down"),
    *r.group("net core", r.TX_TIMEOUT, "a transmit queue is stuck", "^transmit timed out"),
)
"""For lines that begin with an interface and name no driver."""
