"""Intel: e100 to idpf, as in drivers/net/ethernet/intel and in the out-of-tree drivers."""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

DRIVERS = (
    "e100", "e1000", "e1000e", "igb", "igbvf", "igc", "ixgbe", "ixgbevf", "ixgb", "i40e",
    "i40evf", "iavf", "ice", "idpf", "fm10k", "irdma", "i40iw",
)  # fmt: skip

QUEUES = (
    *r.group(
        "intel", r.DEGRADED, "a pause storm of the peer holds transmission up, not a hang",
        "fake tx hang detected",
    ),
    *r.group(
        "intel", r.TX_DEAD, "the card did not come back after a transmit hang",
        "tx_timeout recovery unsuccessful",
    ),
    *r.group(
        "intel", r.TX_TIMEOUT, "a transmit queue is stuck",
        "tx unit hang", "tx_timeout:", "tx_timeout recovery level", "tx hang * detected on queue",
        "tx hang detected", "reset due to tx timeout",
    ),
    *r.group(
        "intel", r.HARDWARE_ERROR, "the transmit unit of the card hangs", "hardware unit hang"
    ),
)  # fmt: skip

CARD = (
    *r.group(
        "intel", r.REMOVED, "the card does not answer on the bus any more",
        "^adapter removed", "pcie link lost",
    ),
    *r.group(
        "intel", r.HARDWARE_DEAD, "the card stopped because it is too hot",
        "stopped because it*over heated", "stopped because it*overheated",
    ),
    *r.group(
        "intel", r.DEGRADED, "the link is slower than it could be",
        "downshifted because it overheated", "downgraded by smartspeed",
    ),
    *r.group("intel", r.HARDWARE_ERROR, "the fan stands still", "fan has stopped"),
    *r.group(
        "intel", r.HARDWARE_ERROR, "the transceiver is missing or not accepted",
        "unsupported sfp", "unsupported module", "does not meet thermal requirements",
        "module is not present", "cannot communicate with the module",
        "exceed the device's power supply", "module type was detected",
    ),
    *r.group(
        "intel", r.HARDWARE_DEAD, "the card is lost until it is reset",
        "unrecoverable device error", "unrecoverable hardware access error",
        "unrecoverable runtime error", "unload and reload driver", "reset never finished",
    ),
    *r.group(
        "intel", r.LINK_DOWN, "no link comes up in any allowed mode",
        "all configured link modes were attempted but failed", "port is unreachable",
    ),
    *r.group(
        "intel", r.HARDWARE_ERROR, "the card reports or shows an error",
        "received ecc err", "uncorrectable ecc", "pf returned error", "failed to read reg ",
        "checksum is not valid", "^hardware error", "pf reset failed", "reset failed",
        "rebuild failed", "failed to communicate with pf", "never saw reset",
        "failed to set lan tx queue context", "hw init failed",
        "hardware initialization failure", "failed to init hw", "failed to initialize hw",
        "initialize the hardware*fail", "ring * not cleared within the polling period",
    ),
    *r.group(
        "intel", r.HARDWARE_WARNING, "a driver or guest sent what the card refuses",
        "malicious driver detection", "malicious event", "mdd event",
    ),
)  # fmt: skip

FIRMWARE = (
    *r.group(
        "intel", r.FIRMWARE_DEAD, "the firmware is in recovery mode",
        "recovery mode detected", "entering recovery mode", "fw recovery mode",
    ),
    *r.group(
        "intel", r.FIRMWARE_ERROR, "the firmware does not do what the driver asks",
        "me firmware caused invalid", "asq critical error", "arq critical error",
        "arq overflow error", "vf error detected", "admin_queue_timeout", "aq_err_timeout",
        "adminq comms lost", "admin queue timeout", "firmware is not responding",
        "firmware error detected fwsm",
    ),
    *r.group(
        "intel", r.DEGRADED_ERROR, "rdma does not work; ethernet does",
        "irdma hardware initialization failed", "irdma*failed",
    ),
    *r.group(
        "intel", r.DEGRADED, "without its package the card does not do all it can",
        "entering safe mode", "in safe mode",
    ),
    *r.group(
        "intel", r.CONFIG_WARNING, "the port does not fit its settings",
        "possible mis-configuration of the ethernet port",
    ),
)  # fmt: skip

RESETS = (
    *r.group(
        "intel", r.RESET, "the driver resets the card",
        "reset adapter", "initiating reset", "reset indication received", "scheduling reset",
        "pf reset requested", "reset requested", "pf still in reset state",
        "device is still in reset", "is still in reset", "pf initiated reset",
        "hardware reset detected",
    ),
    *r.group(
        "intel", r.RESET_DONE, "the card is back after a reset", "hardware came out of reset"
    ),
)  # fmt: skip

TABLE = (*FIRMWARE, *QUEUES, *CARD, *RESETS)
