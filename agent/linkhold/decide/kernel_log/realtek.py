"""Realtek on PCI: r8169 and Realtek's own r8168, r8125, r8126; 8139 (r8152 is a USB driver)."""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

DRIVERS = ("r8169", "r8168", "r8125", "r8126", "r8127", "8139too", "8139cp", "r8101")

TABLE = (
    *r.group(
        "realtek", r.HARDWARE_ERROR, "a register of the chip does not change: it hangs",
        "_cond == ",
    ),
    *r.group(
        "realtek", r.HARDWARE_ERROR, "the chip reports an error of the bus",
        "^pci error", "pci error (", "fatal error: chip is dead",
    ),
    *r.group("realtek", r.DEGRADED, "damaged frames are received", "^rx error"),
    *r.group(
        "realtek", r.FIRMWARE_WARNING, "the phy runs without its firmware patch",
        "unable to load firmware patch", "unable to apply firmware patch",
    ),
    *r.group(
        "realtek", r.HARDWARE_ERROR, "the chip does not answer",
        "unknown chip xid", "phy reset failed", "mem-mapped*error", "rtl_phy*timeout",
    ),
)  # fmt: skip
