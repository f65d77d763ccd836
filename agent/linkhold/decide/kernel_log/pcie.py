"""Faults of the PCI Express bus: AER, DPC, hot plug, power states.

Sources: drivers/pci/pcie/aer.c, err.c, dpc.c, drivers/pci/hotplug/pciehp_*.c, drivers/pci/pci.c.
They count only for a NIC or for a port above one: every other card has them too. The prefixes
``AER: ``, ``DPC: ``, ``pciehp: `` come and go between kernels and are no part of the patterns.
"""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

TABLE = (
    *r.group(
        "pcie aer", r.HARDWARE_WARNING, "a corrected error: nothing is lost yet",
        "pcie bus error: severity=correct", "corrected error received", "corrected error message",
        "correctable error message received", "corrected errors received",
    ),
    *r.group(
        "pcie aer", r.HARDWARE_DEAD, "a fatal error: the card is reset or lost",
        "pcie bus error: severity=uncorrect*(fatal)", "uncorrect*(fatal) error*received",
        "pcie bus error: severity=fatal", "fatal error message received from",
    ),
    *r.group(
        "pcie aer", r.HARDWARE_ERROR, "an uncorrected error: a transaction was lost",
        "pcie bus error: severity=uncorrect", "uncorrect*error*received",
        "pcie bus error: severity=non-fatal",
    ),
    *r.group(
        "pcie aer", r.RESET_DONE, "the card came back after a bus error",
        "device recovery successful",
    ),
    *r.group(
        "pcie aer", r.HARDWARE_DEAD, "the card did not come back after a bus error",
        "device recovery failed", "can't recover (no error_detected callback)",
        "link reset failed$", "subordinate device reset failed",
    ),
    *r.group(
        "pcie dpc", r.HARDWARE_DEAD, "the port cut off what is below it",
        "containment event", "unmasked uncorrectable error detected", "rp pio error detected",
        "err_fatal detected", "err_nonfatal detected",
    ),
    *r.group(
        "pcie hot plug", r.DEGRADED, "the port itself dealt with it",
        "slot(*): link down/up ignored",
    ),
    *r.group(
        "pcie hot plug", r.REMOVED, "the card fell off the bus",
        "slot(*): link down", "slot(*): card not present", "slot(*): surprise removal",
    ),
    *r.group(
        "pcie hot plug", r.HARDWARE_DEAD, "the slot does not work",
        "slot(*): power fault", "slot(*): cannot train link", "slot(*): no link",
    ),
    *r.group(
        "pcie hot plug", r.RESET_DONE, "a card is in the slot", "slot(*): link up"
    ),
    *r.group(
        "pci power", r.HARDWARE_DEAD, "the card does not answer on the bus",
        "change power state from * (config space inaccessible)",
        "change power state from *, device inaccessible", "config space inaccessible",
    ),
    *r.group(
        "pci power", r.HARDWARE_ERROR, "the card does not change its power state",
        "refused to change power state",
    ),
    *r.group(
        "pci reset", r.HARDWARE_DEAD, "the card did not come back after a reset",
        "not ready *ms after *; giving up",
    ),
)  # fmt: skip
