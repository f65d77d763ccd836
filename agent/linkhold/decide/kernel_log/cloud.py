"""NICs that a hypervisor or cloud makes: virtio, ENA, EFA, gVNIC, Hyper-V, MANA, VMware, Xen.

Sources: drivers/net/virtio_net.c, drivers/net/ethernet/{amazon,google,microsoft},
drivers/infiniband/hw/efa, drivers/net/{hyperv,vmxnet3}, and amzn-drivers of 2026 for ENA.
"""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

ENA_DRIVERS = ("ena", "efa")
ENA = (
    *r.group("ena", r.NOTHING, "a counter of the dump at a reset", "^tx_timeout: "),
    *r.group(
        "ena", r.TX_TIMEOUT, "the device does not complete what is sent",
        "lost tx completions", "tx that wasn't completed on time", "tx completion*timeout",
        "tx hasn't completed", "tx packet timeout", "tx watchdog", "transmit timed out",
    ),
    *r.group(
        "ena", r.FIRMWARE_ERROR, "the device gives no sign of life", "keep alive watchdog timeout"
    ),
    *r.group("ena", r.RESET_DONE, "the device is back after a reset", "reset completed success"),
    *r.group(
        "ena", r.FIRMWARE_DEAD, "the device does not take commands any more",
        "admin queue is closed", "admin queue is not in running state",
        "completion (polling) timeout", "isn't responsive", "unhealthy state",
        "completion polling timeout", "failed to process command", "wait for completion*timeout",
        "reset indication didn't turn", "device isn't ready", "can't reset device",
        "the ena device sent a completion but the driver didn't receive",
    ),
    *r.group(
        "ena", r.HARDWARE_DEAD, "the device did not come back",
        "reset attempt failed", "can not reset the device", "failed to restore device",
        "can not initialize device", "failed to init device",
    ),
    *r.group(
        "ena", r.HARDWARE_ERROR, "an interrupt was lost or a queue is stuck",
        "potential msix issue", "invalid req_id", "failed to * rx * refill", "bad req id",
        "rx ring * is empty", "trigger refill",
    ),
    *r.group(
        "ena", r.RESET, "the driver resets the device",
        "trigger reset is on", "resetting the device", "reset the device", "destroy device",
    ),
)  # fmt: skip

GVE_DRIVERS = ("gve", "gvnic")
GVE = (
    *r.group("gve", r.LINK_UP, "the link carries again", "device link is up"),
    *r.group("gve", r.LINK_DOWN, "the link is lost", "device link is down"),
    *r.group(
        "gve", r.TX_TIMEOUT, "a transmit queue is stuck", "timeout on tx queue", "missed completion"
    ),
    *r.group("gve", r.HARDWARE_DEAD, "the device did not come back", "reset failed"),
    *r.group(
        "gve", r.FIRMWARE_ERROR, "a command to the device got no answer",
        "aq commands timed out", "aq command*timed out", "adminq*timed out", "aq command failed",
    ),
    *r.group(
        "gve", r.RESET, "the driver resets the device",
        "device requested reset", "performing reset",
    ),
)  # fmt: skip

VIRTIO_DRIVERS = ("virtio_net", "virtio-pci", "net_failover")
VIRTIO = (
    *r.group(
        "virtio", r.TX_TIMEOUT, "the host does not take what is sent",
        "tx timeout on queue", "no completed buffer*tx",
    ),
    *r.group(
        "virtio", r.DEGRADED, "a queue is full or broken",
        "unexpected txq * queue failure", "unexpected * queue failure", "bad gso",
    ),
    *r.group(
        "virtio", r.HARDWARE_ERROR, "a queue of the device is broken",
        "is not a head", "id * out of range",
    ),
)  # fmt: skip

HYPERV_DRIVERS = ("hv_netvsc", "netvsc")
HYPERV = (
    *r.group(
        "hyper-v", r.DEGRADED, "the fast path is gone, traffic takes the slow one",
        "data path switched from vf",
    ),
    *r.group("hyper-v", r.CONFIG, "the fast path is in use", "data path switched to vf"),
    *r.group("hyper-v", r.VF_REMOVED, "the host takes the VF away", "vf unregistering",
             "vf slot * removed"),
    *r.group("hyper-v", r.CONFIG, "the host gave a VF", "vf registering", "vf slot * added"),
    *r.group(
        "hyper-v", r.HARDWARE_ERROR, "the host does not answer or refused",
        "unable to close device", "ring buffer not empty after closing", "rndis*timed out",
        "unable to send*retry", "rndis*status = 0xc",
    ),
)  # fmt: skip

MANA_DRIVERS = ("mana",)
MANA = (
    *r.group(
        "mana", r.FIRMWARE_ERROR, "the command channel to the device is dead",
        "hwc: request timed out", "command 0x* timed out", "hwc: failed hw_channel req",
        "hwc: timeout", "failed to establish hwc",
    ),
    *r.group("mana", r.FIRMWARE_WARNING, "the device refused a command", "command 0x* failed with"),
    *r.group(
        "mana", r.HARDWARE_ERROR, "the device did not do what the driver asked",
        "^failed to ", "^mana_*failed",
    ),
)  # fmt: skip

VMWARE_DRIVERS = ("vmxnet3", "xen_netfront", "xen-netfront", "vif", "ionic", "pensando")
VMWARE = (
    *r.group("vmware", r.TX_TIMEOUT, "a transmit queue is stuck", "tx hang"),
    *r.group(
        "vmware", r.HARDWARE_DEAD, "the device did not come back",
        "failed to re-activate", "failed to reset", "failed to reactivate",
    ),
    *r.group(
        "vmware", r.HARDWARE_ERROR, "a queue reports an error",
        "error 0x* in tx queue", "error 0x* in rx queue", "tq[*] error 0x", "rq[*] error 0x",
    ),
    *r.group("ionic", r.FIRMWARE_ERROR, "the firmware does not answer", "fw down", "fw_down",
             "devcmd*timeout", "heartbeat*fail", "heartbeat check failed"),
)  # fmt: skip
