"""Broadcom: bnxt_en, tg3, bnx2, bnx2x, b44, bcmgenet (drivers/net/ethernet/broadcom)."""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

DRIVERS = ("bnxt_en", "bnxt_re", "tg3", "bnx2", "bnx2x", "cnic", "b44", "bcmgenet", "bgmac",
           "bcmsysport")  # fmt: skip

BNXT = (
    *r.group("bnxt", r.NOTHING, "a limit that the card names at its start", "requests max timeout"),
    *r.group(
        "bnxt", r.FIRMWARE_DEAD, "the firmware has died",
        "firmware fatal condition", "firmware not responding", "firmware reset aborted",
        "firmware fatal reset event", "fatal firmware reset", "firmware is not responding",
        "fw reset*failed", "failed to*firmware*reset",
    ),
    *r.group(
        "bnxt", r.FIRMWARE_ERROR, "a command to the firmware failed",
        "error (timeout:", "resp cmpl intr err", "hwrm*fail", "hwrm*error", "hwrm*timeout",
        "hwrm*timed out", "hwrm*rc:", "fw_health_status", "firmware non-fatal reset event",
        "non-fatal firmware reset", "abandoning msg {", "invalid hwrm", "firmware * reset event",
    ),
    *r.group(
        "bnxt", r.HARDWARE_ERROR, "the transceiver is not accepted or was switched off",
        "unqualified sfp", "sfp+ module is shutdown", "sfp module is shutdown",
    ),
    *r.group(
        "bnxt", r.DEGRADED, "the link is not as it was set",
        "link speed * no longer supported",
    ),
)  # fmt: skip

TG3 = (
    *r.group(
        "tg3", r.HARDWARE_ERROR, "the chip does not do what the driver asks",
        "dma engine test failed", "dma status error", "flow attention error", "msi status error",
        "stop_block timed out", "re-ordering memory-mapped i/o", "phy reset failed",
        "firmware handshake failed", "not restarting",
    ),
    *r.group("tg3", r.FIRMWARE_ERROR, "the firmware does not run", "no firmware running"),
)  # fmt: skip

BNX2X = (
    *r.group(
        "bnx2x", r.FIRMWARE_ERROR, "the firmware failed or does not fit the driver",
        "mismatches my", "mc assert", "fw assert", "driver assert", "begin crash dump",
        "storm stats were not updated", "ramrod failed", "ramrod timeout",
        "timeout waiting for state", "mcp response failure",
        "fw failed to respond", "firmware assert", "storm asserts", "storm_assert",
        "recovery flow hasn't been properly completed", "fw without*support",
        "wait for firmware ended with a timeout",
    ),
    *r.group("bnx2x", r.TX_TIMEOUT, "a transmit queue is stuck", "timeout waiting for queue"),
    *r.group(
        "bnx2x", r.HARDWARE_ERROR, "the chip reports or shows an error",
        "^bug! ", "dmae timeout", "hw init failed", "function start failed", "parity error",
        "attention*fatal", "access timeout", "hw attention",
        "fan failure", "^fatal hw", "hw block attention", "grc timeout", "pgl error",
        "sfp+ module is not supported", "unqualified sfp", "power fault",
    ),
    *r.group("bnx2x", r.TX_TIMEOUT, "a transmit queue is stuck", "tx timeout"),
)  # fmt: skip

BNX2 = (
    *r.group(
        "bnx2", r.FIRMWARE_ERROR, "the firmware got out of step",
        "fw sync timed out", "fw sync timeout", "can't load firmware file",
    ),
    *r.group("bnx2", r.TX_TIMEOUT, "a transmit queue is stuck", "start ftq dump"),
)  # fmt: skip

TABLE = (
    *BNXT,
    *TG3,
    *BNX2X,
    *BNX2,
    *r.group("b44", r.HARDWARE_ERROR, "a register does not change", "timeout waiting for bit"),
    *r.group(
        "broadcom", r.TX_TIMEOUT, "a transmit queue is stuck",
        "tx timeout detected", "transmit timed out",
    ),
)  # fmt: skip
