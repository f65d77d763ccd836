"""Families with few formats, and drivers that say nothing of their own that is known here.

Sources: drivers/net/ethernet/{hisilicon,qlogic,chelsio,netronome,aquantia,emulex,sfc,...},
drivers/net/thunderbolt.
"""

from __future__ import annotations

from linkhold.decide.kernel_log import rules as r

HNS_DRIVERS = (
    "hns3",
    "hclge",
    "hclgevf",
    "hns",
    "hinic",
    "hinic3",
    "hibmcge",
    "hns_roce",
    "hns_dsaf",
)
HNS = (
    *r.group("hisilicon", r.TX_TIMEOUT, "a transmit queue is stuck", "tx_timeout count"),
    *r.group(
        "hisilicon", r.HARDWARE_DEAD, "the card did not come back after a reset",
        "reset fail", "wait for reset timeout", "failed to reset", "reset done*fail",
    ),
    *r.group(
        "hisilicon", r.HARDWARE_ERROR, "the card reports an error",
        "pci error detected", "found [error status", "ras error", "ecc error", "2bit ecc",
        "ras(", "hw error", "mac tnl", "msix error",
    ),
    *r.group(
        "hisilicon", r.FIRMWARE_ERROR, "the firmware does not answer",
        "firmware*timeout", "cmd queue*timeout", "mbx*timeout", "mbx*no response",
        "api cmd*timeout", "mailbox*timeout", "failed to send*mbx",
    ),
    *r.group(
        "hisilicon", r.RESET_DONE, "the card is back after a reset",
        "reset done", "prepare ok, reset", "reset success",
    ),
    *r.group(
        "hisilicon", r.RESET, "the card is being reset",
        "upgrade reset level", "reset interrupt", "reset request", "prepare reset",
        "reset event", "reset requested", "inform reset", "requesting reset", "global reset",
        "core reset", "imp reset", "pf reset", "func reset", "reset is triggered",
    ),
)  # fmt: skip

QLOGIC_DRIVERS = ("qede", "qed", "qedr", "qlcnic", "qlge", "netxen_nic", "qla3xxx")
QLOGIC = (
    *r.group(
        "qlogic", r.TX_TIMEOUT, "a transmit queue is stuck",
        "tx timeout", "is stuck, requesting mcp to drain", "tx queue*stuck",
    ),
    *r.group("qlogic", r.RESET_DONE, "the card is back", "recovery handling is done"),
    *r.group(
        "qlogic", r.HARDWARE_DEAD, "the card is lost until it is reset or replaced",
        "recovery handling has failed", "fan failure was detected",
    ),
    *r.group(
        "qlogic", r.FIRMWARE_DEAD, "the management firmware reports a critical fault",
        "critical error occurred", "process kill", "mfw*not respond", "mfw*failed to respond",
        "firmware hang detected", "fw hang", "firmware hung",
    ),
    *r.group(
        "qlogic", r.FIRMWARE_ERROR, "the firmware does not do what the driver asks",
        "mfw*error", "ramrod*fail", "ramrod is stuck", "mcp*timeout", "fw assert",
    ),
    *r.group("qlogic", r.HARDWARE_ERROR, "the chip reports an error", "hw attention",
             "parity error", "dmae*fail", "error reported by hw", "fatal attention"),
    *r.group("qlogic", r.RESET, "the driver resets the card", "starting a recovery process",
             "starting recovery", "resetting adapter"),
)  # fmt: skip

CHELSIO_DRIVERS = ("cxgb4", "cxgb4vf", "cxgb3", "cxgb", "iw_cxgb4")
CHELSIO = (
    *r.group("chelsio", r.LINK_DOWN, "the module is out", "port module unplugged"),
    *r.group(
        "chelsio", r.HARDWARE_ERROR, "the module has a fault or is not accepted",
        "transceiver module error", "unsupported port module", "unknown port module",
    ),
    *r.group("chelsio", r.HARDWARE_DEAD, "the card has stopped", "encountered fatal error",
             "adapter stopped"),
    *r.group("chelsio", r.FIRMWARE_DEAD, "the firmware has failed",
             "firmware reports adapter error"),
    *r.group("chelsio", r.FIRMWARE_ERROR, "a command to the firmware got no answer",
             "in mailbox * timed out", "mailbox*timed out"),
)  # fmt: skip

NFP_DRIVERS = ("nfp", "nfp_netvf")
NFP = (
    *r.group("netronome", r.TX_TIMEOUT, "a transmit queue is stuck", "tx watchdog timeout"),
    *r.group("netronome", r.FIRMWARE_ERROR, "the firmware does not answer", "reconfig timeout",
             "reconfig error", "mbox*timeout", "cmd*timed out"),
    *r.group("netronome", r.LINK_DOWN, "the interface was set down", "^down$"),
    *r.group("netronome", r.LINK_UP, "the interface was set up", "^up$"),
)  # fmt: skip

AQUANTIA_DRIVERS = ("atlantic", "aquantia")
AQUANTIA = (
    *r.group("aquantia", r.LINK_DOWN, "the link is lost", "^link change old * new 0$"),
    *r.group("aquantia", r.LINK_UP, "the link carries again", "^link change old * new "),
    *r.group("aquantia", r.FIRMWARE_ERROR, "the firmware does not run", "boot code hanged",
             "fw state timeout", "rbl restart*fail"),
    *r.group("aquantia", r.HARDWARE_ERROR, "the card does not answer", "hw reset*failed"),
)  # fmt: skip

EMULEX_DRIVERS = ("be2net",)
EMULEX = (
    *r.group("emulex", r.TX_TIMEOUT, "a transmit queue is stuck", "^txq dump"),
    *r.group("emulex", r.HARDWARE_DEAD, "the card reports an unrecoverable error",
             "^ue:", "ue low", "ue high", "error detected in the adapter",
             "error detected in the chip", "error detected in the card", "unrecoverable error"),
    *r.group("emulex", r.FIRMWARE_DEAD, "the firmware does not answer", "fw not responding",
             "fw timed out", "firmware*not responding", "mbox*timeout", "polling timed out",
             "poll timed out"),
    *r.group("emulex", r.RESET_DONE, "the card is back", "adapter recovery success",
             "error recovery success"),
    *r.group("emulex", r.HARDWARE_DEAD, "the card did not come back", "recovery failed",
             "re-initialization failed"),
)  # fmt: skip

SOLARFLARE_DRIVERS = ("sfc", "sfc_ef100", "sfc-siena", "sfc_siena", "sfc-falcon")
SOLARFLARE = (
    *r.group("solarflare", r.TX_TIMEOUT, "a transmit queue is stuck", "tx stuck with"),
    *r.group("solarflare", r.FIRMWARE_ERROR, "the management controller failed",
             "mc command * timed out", "mc assert", "mc reboot", "mc watchdog", "mcdi*timeout",
             "mc command*failed"),
    *r.group("solarflare", r.HARDWARE_DEAD, "the card is off", "nic has been disabled",
             "has been disabled", "failed to reset"),
    *r.group("solarflare", r.RESET, "the driver resets the card", "resetting ("),
)  # fmt: skip

MARVELL_DRIVERS = ("sky2", "skge", "mvneta", "mvpp2", "mv643xx_eth", "octeontx2", "rvu_nicpf",
                   "rvu_nicvf", "octeontx-nicvf", "thunder-nic", "octeon_ep")  # fmt: skip
MARVELL = (
    *r.group("marvell", r.HARDWARE_ERROR, "the chip reports or shows an error",
             "hung mac", "hw error", "pci hardware error", "pci express error", "error interrupt",
             "receiver hang", "rx hang", "parity error", "phy i/o error", "rx error, status",
             "tx error"),
)  # fmt: skip

STMMAC_DRIVERS = (
    "stmmaceth", "stmmac", "dwmac", "st_gmac", "rk_gmac-dwmac", "meson8b-dwmac", "sun8i-emac",
    "dwmac-sun8i", "intel-eth-pci", "dwmac4", "qcom-ethqos", "imx-dwmac", "socfpga-dwmac", "fec",
    "macb", "gem", "gianfar", "fsl-gianfar", "ftgmac100", "cpsw", "cpsw-switch", "am65-cpsw-nuss",
    "davinci_emac", "fsl_dpaa2_eth", "fsl_enetc", "fsl_dpa", "sungem", "tulip", "forcedeth",
    "alx", "atl1c", "atl1e", "atl2", "jme", "via-rhine", "via_velocity", "natsemi", "pcnet32",
    "3c59x", "sis900", "ne2k-pci", "amd-xgbe", "xgbe", "xgene-enet", "enic", "myri10ge", "vxge",
    "s2io", "niu", "lan743x", "lan966x-switch", "mtk_soc_eth", "ravb", "sh-eth", "axienet",
    "xilinx_axienet", "tsnep", "ibmveth", "ibmvnic", "ehea", "qeth", "txgbe", "ngbe", "fbnic",
    "pds_core", "bna", "liquidio", "emac", "qca-spi", "enc28j60", "dm9000", "smsc911x", "ks8851",
    "mv88e6085", "mt7530", "b53", "sja1105", "ksz-switch", "microchip-t1", "erdma",
)  # fmt: skip
STMMAC = (
    *r.group("soc", r.HARDWARE_ERROR, "the chip does not answer or lost data",
             "failed to reset the dma", "dma bus error", "dma engine initialization failed",
             "mdio read timeout", "mdio write timeout", "hresp not ok", "bus error", "ecc error",
             "pci-e underflow", "fatal interrupt", "fifo * error"),
    *r.group("soc", r.TX_TIMEOUT, "a transmit queue is stuck", "tx timeout, device restarting",
             "tx timed out"),
    *r.group("soc", r.LINK_DOWN, "the link is lost", "ncsi interface down",
             "ncsi: no channel found with link"),
    *r.group("soc", r.LINK_UP, "the link carries again", "ncsi interface up", "^nic up"),
    *r.group("ibm", r.REMOVED, "the hypervisor took the adapter away", "adapter removed"),
    *r.group("soc", r.RESET, "the driver resets the chip", "^reset adapter", "device restarting"),
)  # fmt: skip

THUNDERBOLT_DRIVERS = ("thunderbolt-net", "thunderbolt_net")
THUNDERBOLT = (
    *r.group("thunderbolt", r.LINK_DOWN, "the other host does not answer", "login timed out"),
    *r.group("thunderbolt", r.DEGRADED, "the tunnel to the other host failed", "failed to*tunnel",
             "failed to enable dma paths", "dma paths"),
)  # fmt: skip
