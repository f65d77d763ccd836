"""NICs on USB: r8152, cdc_ether, cdc_ncm, ax88179 and others on usbnet (drivers/net/usb).

Lines of the USB core (``usb 2-1: USB disconnect``) are any device's: the NIC's own line counts.
"""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

DRIVERS = (
    "r8152", "r8153_ecm", "cdc_ether", "cdc_ncm", "cdc_mbim", "cdc_eem", "cdc_subset",
    "ax88179_178a", "ax88179", "asix", "aqc111", "smsc95xx", "smsc75xx", "lan78xx", "rtl8150",
    "rndis_host", "pegasus", "dm9601", "sr9700", "mcs7830", "usbnet", "qmi_wwan", "ipheth",
    "huawei_cdc_ncm", "sr9800", "ch9200", "kaweth", "catc",
)  # fmt: skip

TABLE = (
    *r.group("usb", r.UNREGISTERED, "the device is gone", "^unregister '"),
    *r.group("usb", r.CONFIG, "a device appeared", "^register '"),
    *r.group(
        "usb", r.LINK_DOWN, "the link is lost",
        "network connection: disconnected", "link status is: 0",
    ),
    *r.group(
        "usb", r.LINK_UP, "the link carries again",
        "network connection: connected", "link status is: 1", "^link speed * usb",
    ),
    *r.group("usb", r.TX_TIMEOUT, "nothing is sent any more", "tx timeout"),
    *r.group(
        "usb", r.HARDWARE_ERROR, "a transfer over USB failed",
        "tx status -", "rx status -", "intr status -", "stop submitting intr",
        "failed to read reg", "failed to write reg", "error reading", "error writing",
        "failed to read register", "failed to write register", "failed to get", "get_registers -",
        "set_registers -", "failed tx_urb", "get ether addr fail",
        "control msg*failed", "mii is busy", "timed out reading", "timed out writing",
        "timeout on mdio", "error killing urb", "intr urb*fail", "can't resubmit intr",
        "nonzero * bulk status", "transfer error",
    ),
    *r.group(
        "usb", r.HARDWARE_WARNING, "the link could not be set up again", "link reset failed"
    ),
    *r.group(
        "usb", r.DEGRADED, "work for this device was dropped or makes no sense",
        "may have been dropped", "unexpected notification",
    ),
)  # fmt: skip
