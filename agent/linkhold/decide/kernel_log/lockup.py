"""A processor that is wedged in the poll function of a NIC.

``watchdog: BUG: soft lockup`` (kernel/watchdog.c) does not say where; the register dump and the
stack that follow do, by the name of the NAPI poll function.
"""

from __future__ import annotations

import re

from linkhold.model.kernel_log import Finding, Mark

_LOCKUP = re.compile(r"(?:watchdog: )?BUG: soft lockup - CPU#\d+ stuck for \d+s!")
_FRAME = re.compile(r"\b([a-z]\w*?)_(?:\w+_)?poll\w*\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)\])?")
_PREFIXES = {
    "mlx5e": "mlx5_core", "mlx4": "mlx4_en", "i40e": "i40e", "iavf": "iavf", "ice": "ice",
    "ixgbe": "ixgbe", "ixgbevf": "ixgbevf", "igb": "igb", "igc": "igc", "e1000": "e1000",
    "e1000e": "e1000e", "e1000_": "e1000", "bnxt": "bnxt_en", "tg3": "tg3", "bnx2": "bnx2",
    "bnx2x": "bnx2x", "ena": "ena", "gve": "gve", "virtnet": "virtio_net",
    "netvsc": "hv_netvsc", "mana": "mana", "rtl8169": "r8169", "rtl": "r8169", "r8152": "r8152",
    "hns3": "hns3", "qede": "qede", "nfp": "nfp", "be": "be2net", "efx": "sfc",
    "vmxnet3": "vmxnet3", "stmmac": "stmmac", "ionic": "ionic", "aq": "atlantic",
    "xennet": "xen_netfront",
}  # fmt: skip
LOCKUP = Finding(
    why="watchdog: soft lockup (whose it is, the stack after it says)", mark=Mark.LOCKUP
)


def marked(text: str) -> Finding | None:
    """Return a finding of no class for a lockup or a frame of a NIC's poll function, else None."""
    if "lockup" in text:
        return LOCKUP if _LOCKUP.match(text) else None
    if "_poll" not in text:
        return None
    found = _FRAME.search(text)
    if found is None:
        return None
    driver = _PREFIXES.get(found[1])
    if driver is None:
        return None
    return Finding(
        driver=driver, why=f"stack: {driver} polls (counts after a soft lockup)", mark=Mark.POLL
    )
