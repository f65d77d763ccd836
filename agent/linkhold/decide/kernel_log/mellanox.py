"""NVIDIA, once Mellanox: mlx5_core, mlx4 and their RDMA drivers, and IPoIB.

As in drivers/net/ethernet/mellanox and drivers/infiniband.
"""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

DRIVERS = ("mlx5_core", "mlx4_core", "mlx4_en", "mlx5_ib", "mlx4_ib", "mlxfw", "mlxbf_gige")

HEALTH = r.group(
    "mellanox", r.FIRMWARE_ERROR, "the firmware reports a fault", "health issue observed"
)

PORT = (
    *r.group("mellanox", r.LINK_DOWN, "the cable is out", "cable unplugged", "cable disabled"),
    *r.group("mellanox", r.NOTHING, "a cable was put in", "cable plugged"),
    *r.group(
        "mellanox", r.HARDWARE_ERROR, "the cable or module has a fault",
        "port module event[error]", "cable error",
    ),
    *r.group(
        "mellanox", r.DEGRADED, "the card is hot", "high temperature", "temperature warning"
    ),
    *r.group(
        "mellanox", r.DEGRADED, "the slot gives less power than the card can use",
        "detected insufficient power",
    ),
)  # fmt: skip

QUEUES = (
    *r.group("mellanox", r.TX_TIMEOUT, "a transmit queue is stuck", "tx timeout"),
    *r.group("mellanox", r.HARDWARE_ERROR, "a receive queue is stuck", "rx timeout on channel"),
    *r.group(
        "mellanox", r.HARDWARE_ERROR, "a queue is in error and is set up again",
        "err cqe on ", "cqe error", "error cqe on cq", "dump error cqe",
    ),
)  # fmt: skip

FIRMWARE = (
    *r.group(
        "mellanox", r.NOTHING, "monitors without rights ask for what they may not see",
        "access_reg(0x805)*failed", "access_reg(0x805)*bad",
    ),
    *r.group(
        "mellanox", r.FIRMWARE_DEAD, "the firmware has died",
        "health compromised", "fatal error * detected", "internal error detected",
        "health recovery failed", "recovery flow aborted", "timed out (go bit not cleared)",
        "device is in fatal error state", "unrecoverable hardware error", "synd 0x8:", "synd 0xb:",
    ),
    *r.group(
        "mellanox", r.FIRMWARE_ERROR, "the firmware reports a fault",
        "fw tracer*error", "handling bad device",
    ),
    *r.group("mellanox", r.NOTHING, "a detail of the health dump", "^synd 0x0:", "ext_synd"),
    *r.group("mellanox", r.FIRMWARE_ERROR, "the firmware reports a fault", "^synd 0x"),
    *r.group(
        "mellanox", r.FIRMWARE_ERROR, "a command to the firmware got no answer",
        "will cause a leak of a command resource", "no done completion",
        "timeout waiting for fw", "command timeout", "timed out*command", "wait_func*timeout",
        "failed to allocate command entry",
    ),
    *r.group(
        "mellanox", r.FIRMWARE_WARNING, "the firmware keeps the driver waiting",
        "waiting for fw initialization",
    ),
    *r.group(
        "mellanox", r.FIRMWARE_WARNING, "the firmware refused a command",
        "op_mod(0x*failed", "^command 0x* failed", "fw status = 0x",
    ),
    *r.group(
        "mellanox", r.FIRMWARE_DEAD, "the firmware did not start",
        "fw initialization failed", "in pre-initializing state, aborting",
        "in initializing state, aborting", "enable hca failed", "failed initializing command",
        "query_fw command failed", "map_fa command failed", "init_hca command failed",
        "firmware failed to boot",
    ),
    *r.group(
        "mellanox", r.HARDWARE_ERROR, "the driver could not start the card",
        "load_one failed with error", "failed to init hw", "nop command failed",
    ),
)  # fmt: skip

RESETS = (
    *r.group(
        "mellanox", r.RESET_DONE, "the card is back after a reset",
        "device recovered", "health recovery succeeded", "was reset successfully",
        "pci_resume was called",
    ),
    *r.group(
        "mellanox", r.HARDWARE_DEAD, "the card did not come back on the bus",
        "pci link not ready", "wait_vital timed out", "fail to reset hca",
        "failed to reset hca", "did not come back after reset", "wait vital failed",
        "pci reads still not working",
    ),
    *r.group(
        "mellanox", r.HARDWARE_ERROR, "a bus error reached the driver",
        "pci_err_detected", "pci channel state",
    ),
    *r.group(
        "mellanox", r.RESET, "the card is being reset",
        "got device reset", "sync reset now", "device is going to be reset",
        "starting health recovery", "restarting device", "pci_slot_reset was called",
        "scheduling port restart", "health recovery flow",
    ),
)  # fmt: skip

LAG = (
    *r.group(
        "mellanox", r.DEGRADED_ERROR, "the bond in the card did not follow", "failed to modify lag"
    ),
    *r.group(
        "mellanox", r.BOND_MOVED, "the bond in the card uses its ports in another way",
        "modify lag map port", "lag map: port", "lag map port",
    ),
)  # fmt: skip

TABLE = (*HEALTH, *PORT, *QUEUES, *RESETS, *FIRMWARE, *LAG)

IPOIB = (
    *r.group(
        "ipoib", r.TX_TIMEOUT, "the send queue is stuck", "^transmit timeout: latency",
        "^queue stopped * tx_head",
    ),
    *r.group(
        "ipoib", r.DEGRADED, "something could not be sent",
        "^failed send event", "^failed cm send event", "multicast join failed",
    ),
)  # fmt: skip
"""Lines that begin with the interface and name no driver."""
