"""NICs, their clouds, and file systems that come over them, from files as Linux 6.1 shows them."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.model.survey import Known, Nic, RootView, Upper
from linkhold.survey import host, mounts, nic, root
from linkhold.survey.files import Reader
from linkhold.survey.links import LinkFacts

if TYPE_CHECKING:
    from pathlib import Path

AZURE = "7783-7084-3265-9085-8269-3286-77"
LOCAL_ROOT = "25 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro"
NVME = "pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/nvme0n1"


class Host:
    """A host's files below a folder."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.put("/proc/1/comm", "systemd\n")
        self.put("/sys/class/dmi/id/sys_vendor", "Supermicro\n")

    def put(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.base / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        file = self.base / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def dmi(self, **fields: str) -> None:
        """Say what the machine is."""
        for name, value in fields.items():
            self.put(f"/sys/class/dmi/id/{name}", value + "\n")

    def nic(self, name: str, index: int, driver: str = "", mac: str = "02:00:00:00:00:03") -> None:
        """Make an interface; without a driver it is a virtual one."""
        folder = f"/sys/class/net/{name}"
        lines = {"ifindex": index, "type": 1, "address": mac, "mtu": 1500, "flags": "0x1003"}
        for attribute, value in lines.items():
            self.put(f"{folder}/{attribute}", f"{value}\n")
        self.put(f"{folder}/carrier", "1\n")
        self.put(f"{folder}/uevent", f"INTERFACE={name}\nIFINDEX={index}\n")
        if driver:
            device = f"/sys/devices/pci0000:3a/0000:3b:00.{index}"
            self.put(f"{device}/vendor", "0x15b3\n")
            self.link(f"{device}/driver", f"../../../bus/pci/drivers/{driver}")
            self.link(f"{folder}/device", f"../../../devices/pci0000:3a/0000:3b:00.{index}")

    def upper(self, lower: str, upper: str, *, master: bool = False) -> None:
        """Put one interface on top of another, as netdev_adjacent_sysfs_add does."""
        self.link(f"/sys/class/net/{lower}/upper_{upper}", f"../{upper}")
        self.link(f"/sys/class/net/{upper}/lower_{lower}", f"../{lower}")
        if master:
            self.link(f"/sys/class/net/{lower}/master", f"../{upper}")

    def disk(self, number: str, place: str) -> None:
        """Make a block device with this number at a place in /sys/devices."""
        self.put(f"/sys/devices/{place}/dev", number + "\n")
        self.link(f"/sys/dev/block/{number}", f"../../devices/{place}")

    def look(self, name: str = "eth0", **facts: LinkFacts) -> Nic:
        """Return what is found of an interface."""
        found = nic.look(Reader(self.base), name, facts or None)
        assert found is not None
        return found

    def root(self, *lines: str, cmdline: str = "ro quiet") -> RootView:
        """Return what is found with these mounts; every server is reached by eth0.5."""
        self.put("/proc/self/mountinfo", "\n".join(lines) + "\n")
        self.put("/proc/cmdline", cmdline + "\n")
        return root.look(Reader(self.base), lambda _: "eth0.5")


@pytest.fixture
def here(tmp_path: Path) -> Host:
    """A bare-metal host with one NIC."""
    made = Host(tmp_path)
    made.nic("eth0", 3, "mlx5_core")
    return made


def test_plain_nic(here: Host) -> None:
    """All of a NIC with nothing on it, JSON-able."""
    found = here.look(eth0=LinkFacts(3, "", "0c:42:a1:00:00:03"))

    assert (found.driver, found.bus_path) == ("mlx5_core", "0000:3b:00.3")
    assert (found.admin_up, found.carrier, found.virtual, found.vf) == (True, True, False, False)
    assert (found.perm_mac, found.xdp, found.cloud) == ("0c:42:a1:00:00:03", False, None)
    assert (found.uppers, found.unknown) == ((), ())
    json.dumps(dataclasses.asdict(found))


def test_without_netlink(here: Host) -> None:
    """What only netlink tells is unknown, not absent."""
    found = here.look()

    assert found.xdp is None
    assert "netlink" in found.unknown[0]


def test_sysfs_of_another_namespace(here: Host) -> None:
    """Two indexes for one name: /sys was mounted elsewhere."""
    assert "another network namespace" in here.look(eth0=LinkFacts(9)).unknown[0]


def test_down(here: Host) -> None:
    """Carrier is unknown while the NIC is down (the file fails with EINVAL)."""
    here.put("/sys/class/net/eth0/flags", "0x1002\n")
    (here.base / "sys/class/net/eth0/carrier").unlink()

    assert (here.look().admin_up, here.look().carrier) == (False, None)


def test_virtual_function(here: Host) -> None:
    """A VF shows by the link to its physical function."""
    here.link("/sys/devices/pci0000:3a/0000:3b:00.3/physfn", "../0000:3b:00.0")

    assert (here.look().vf, here.look().physfn) == (True, "0000:3b:00.0")


def test_infiniband_and_wireless(here: Host) -> None:
    """By ARPHRD and by the wireless folder."""
    here.put("/sys/class/net/eth0/type", "32\n")
    here.put("/sys/class/net/eth0/wireless/status", "0\n")

    assert (here.look().ipoib, here.look().wireless) == (True, True)


def test_rdma(here: Host) -> None:
    """The RDMA device of the same hardware is named."""
    here.put("/sys/devices/pci0000:3a/0000:3b:00.3/infiniband/mlx5_0/node_guid", "1\n")

    assert here.look().rdma == ("mlx5_0",)


def test_uppers(here: Host) -> None:
    """The master comes first; kinds come from sysfs, /proc/net/vlan and netlink."""
    for name in ("eth0.5", "mv0", "br0"):
        here.nic(name, 10)
    here.put("/proc/net/vlan/eth0.5", "eth0.5  VID: 5\n")
    here.put("/sys/class/net/br0/bridge/stp_state", "0\n")
    here.upper("eth0", "eth0.5")
    here.upper("eth0", "mv0")
    here.upper("eth0", "br0", master=True)

    found = here.look(eth0=LinkFacts(3), mv0=LinkFacts(10, "macvlan"))

    expected = (
        Upper("br0", "bridge", master=True),
        Upper("eth0.5", "vlan"),
        Upper("mv0", "macvlan"),
    )
    assert found.uppers == expected
    assert found.master == expected[0]


def test_tunnel_that_is_bound_to_a_nic_is_on_top_of_it(here: Host) -> None:
    """`ip link add gre1 type gretap dev eth0` makes no upper in sysfs; its IFLA_LINK tells."""
    bound, other = LinkFacts(11, "gretap", lower=3), LinkFacts(12, "gretap", lower=4)

    found = here.look(eth0=LinkFacts(3), gre1=bound, gre2=other)
    assert found.uppers == (Upper("gre1", "gretap"),)


def test_upper_of_unknown_kind(here: Host) -> None:
    """Without netlink a macvlan is an upper all the same."""
    here.nic("mv0", 10)
    here.upper("eth0", "mv0")

    assert here.look().uppers == (Upper("mv0", "unknown"),)


def test_hyper_v_pair(here: Host) -> None:
    """Complaint R25: a VF and its netvsc know each other, on Azure both are the cloud's."""
    here.dmi(sys_vendor="Microsoft Corporation", chassis_asset_tag=AZURE)
    here.nic("eth1", 4, "hv_netvsc")
    here.upper("eth0", "eth1", master=True)

    vf, netvsc = here.look("eth0"), here.look("eth1")

    assert (vf.netvsc_partner, netvsc.netvsc_partner) == ("eth1", "eth0")
    assert vf.uppers == (Upper("eth1", "netvsc", master=True),)
    assert vf.cloud is not None
    assert netvsc.cloud is not None
    assert (vf.cloud.vendor, netvsc.cloud.certain) == ("Microsoft Azure", True)


def test_hyper_v_pair_while_the_vf_comes(here: Host) -> None:
    """Before the kernel has joined them only the equal MAC tells."""
    here.nic("eth1", 4, "hv_netvsc")

    assert here.look("eth0").netvsc_partner == "eth1"
    assert here.look("eth1").netvsc_partner == "eth0"


def test_equal_macs_are_no_pair(here: Host) -> None:
    """Ports of a bond share a MAC; without a netvsc that means nothing."""
    here.nic("eth1", 4, "mlx5_core")

    assert here.look("eth0").netvsc_partner == ""


@pytest.mark.parametrize(
    ("fields", "vendor"),
    [
        ({"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"}, "Amazon EC2"),
        ({"sys_vendor": "Amazon EC2", "product_name": "i3.metal"}, "Amazon EC2"),
        ({"sys_vendor": "Xen", "product_version": "4.2.amazon"}, "Amazon EC2"),
        ({"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "Google Cloud"),
        ({"chassis_asset_tag": AZURE}, "Microsoft Azure"),
        ({"sys_vendor": "QEMU", "chassis_asset_tag": "OracleCloud.com"}, "Oracle Cloud"),
        ({"sys_vendor": "Alibaba Cloud", "product_name": "Alibaba Cloud ECS"}, "Alibaba Cloud"),
        ({"sys_vendor": "DigitalOcean", "product_name": "Droplet"}, "DigitalOcean"),
        ({"sys_vendor": "Hetzner", "product_name": "vServer"}, "Hetzner Cloud"),
        ({"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova"}, "OpenStack"),
        ({"sys_vendor": "Dell Inc.", "product_name": "PowerEdge XE9680"}, ""),
        ({"sys_vendor": "QEMU", "product_name": "Standard PC (Q35 + ICH9, 2009)"}, ""),
        ({"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, ""),
    ],
)
def test_clouds(here: Host, fields: dict[str, str], vendor: str) -> None:
    """Vendors as their machines name themselves; others are no cloud."""
    here.dmi(**fields)

    found = here.look().cloud

    assert (found.vendor if found else "") == vendor
    assert found is None or found.certain == (vendor != "OpenStack")


@pytest.mark.parametrize(
    ("driver", "vendor", "certain"),
    [("ena", "Amazon EC2", True), ("gve", "Google Cloud", True), ("hv_netvsc", "Hyper-V", False)],
)
def test_cloud_by_driver(here: Host, driver: str, vendor: str, *, certain: bool) -> None:
    """Some drivers tell without any DMI table."""
    here.nic("eth1", 4, driver)

    found = here.look("eth1").cloud

    assert found is not None
    assert (found.vendor, found.certain) == (vendor, certain)


def test_cloud_without_dmi(here: Host) -> None:
    """No table: unknown, unless cloud-init knows; a veth is no cloud's NIC in any case."""
    (here.base / "sys/class/dmi/id/sys_vendor").unlink()
    here.nic("veth0", 7)

    found = here.look().cloud
    assert found is not None
    assert (found.vendor, found.certain) == ("unknown", False)
    here.put("/run/cloud-init/cloud-id", "azure\n")
    found = here.look().cloud
    assert found is not None
    assert (found.vendor, found.certain) == ("Microsoft Azure", True)
    assert here.look("veth0").cloud is None


def test_local_root(here: Host) -> None:
    """An NVMe disk in the machine; hints on the command line prove nothing."""
    here.disk("259:2", f"{NVME}/nvme0n1p2")
    here.put("/sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/transport", "pcie\n")

    found = here.root(LOCAL_ROOT, cmdline="rd.neednet=1 ip=dhcp")

    assert (found.over_network, found.unknown) == (Known.NO, ())
    assert found.hints == ("rd.neednet=1", "ip=dhcp")


@pytest.mark.parametrize(
    ("mount", "how", "server"),
    [
        ("0:44 / / rw - nfs4 nas:/root rw,vers=4.2,addr=10.0.0.9,clientaddr=10.0.0.2", "nfs",
         "10.0.0.9"),
        ("0:44 / / rw - nfs [fd00::9]:/root rw,addr=fd00::9", "nfs", "fd00::9"),
        ("0:44 / / rw - nfs 10.0.0.9:/root rw", "nfs", "10.0.0.9"),
        ("0:44 / / rw - cifs //10.0.0.9/root rw,addr=10.0.0.9", "cifs", "10.0.0.9"),
        ("0:44 / / rw - ceph 10.0.0.9:6789,10.0.0.8:6789:/ rw,name=x", "ceph", "10.0.0.9"),
        ("0:44 / / rw - 9p 10.0.0.9 rw,trans=tcp,port=564", "9p", "10.0.0.9"),
    ],
)  # fmt: skip
def test_root_on_the_network(here: Host, mount: str, how: str, server: str) -> None:
    """The server's address leads to the interface, and that to the NIC below its VLAN."""
    here.nic("eth0.5", 8)
    here.upper("eth0", "eth0.5")

    found = here.root(f"25 1 {mount}")

    assert found.over_network is Known.YES
    assert [(m.mount, m.how, m.server) for m in found.mounts] == [("/", how, server)]
    assert found.mounts[0].carriers == ("eth0.5", "eth0")
    assert found.interfaces == {"eth0.5", "eth0"}


def test_9p_of_a_hypervisor(here: Host) -> None:
    """Virtio is no network."""
    assert here.root("25 1 0:44 / / rw - 9p root rw,trans=virtio").over_network is Known.NO


def test_root_by_host_name(here: Host) -> None:
    """Names are not looked up: then the interface is not known, the verdict is."""
    found = here.root("25 1 0:44 / / rw - fuse.glusterfs nas:/vol rw")

    assert found.over_network is Known.YES
    assert (found.mounts[0].interface, found.interfaces) == ("", frozenset())
    assert "nas" in found.mounts[0].reason


def test_root_on_iscsi_below_lvm(here: Host) -> None:
    """A mapping leads to its disk, the disk to the session and its target's address."""
    session = "platform/host2/session1"
    here.disk("253:0", "virtual/block/dm-0")
    here.put(f"/sys/devices/{session}/target2:0:0/2:0:0:1/block/sdb/size", "1\n")
    connection = f"{session}/connection1:0/iscsi_connection/connection1:0"
    here.put(f"/sys/devices/{connection}/persistent_address", "10.0.0.9\n")
    disk = f"../../../../{session}/target2:0:0/2:0:0:1/block/sdb"
    here.link("/sys/devices/virtual/block/dm-0/slaves/sdb", disk)

    found = here.root("25 1 253:0 / / rw - xfs /dev/mapper/vg-root rw")

    assert [(m.how, m.server) for m in found.mounts] == [("iscsi", "10.0.0.9")]


def test_root_on_nvme_tcp(here: Host) -> None:
    """With multipath the namespace lies below a subsystem that links its controllers."""
    subsystem = "virtual/nvme-subsystem/nvme-subsys0"
    here.disk("259:5", f"{subsystem}/nvme0n1")
    controller = "/sys/devices/virtual/nvme-fabrics/ctl/nvme0"
    here.put(f"{controller}/transport", "tcp\n")
    here.put(f"{controller}/address", "traddr=10.0.0.9,trsvcid=4420,src_addr=10.0.0.2\n")
    here.link(f"/sys/devices/{subsystem}/nvme0", "../../nvme-fabrics/ctl/nvme0")

    found = here.root("25 1 259:5 / / rw - ext4 /dev/nvme0n1 rw")

    assert [(m.how, m.server) for m in found.mounts] == [("nvme-tcp", "10.0.0.9")]


def test_root_on_nbd_with_btrfs(here: Host) -> None:
    """Btrfs hides the number of its disk; the source names it."""
    here.put("/sys/devices/virtual/block/nbd0/size", "1\n")
    here.link("/sys/class/block/nbd0", "../../devices/virtual/block/nbd0")
    here.put("/dev/nbd0", "")

    found = here.root("25 1 0:31 / / rw - btrfs /dev/nbd0 rw")

    assert [m.how for m in found.mounts] == ["nbd"]


@pytest.mark.parametrize("source", ["rpool/ROOT/debian", "/dev/gone"])
def test_root_on_a_disk_that_is_not_found(here: Host, source: str) -> None:
    """ZFS names no disk: unknown, never fine."""
    found = here.root(f"25 1 0:31 / / rw - zfs {source} rw")

    assert found.over_network is Known.UNKNOWN
    assert source in found.unknown[0]


def test_root_is_an_overlay(here: Host) -> None:
    """Its layers count where they are seen."""
    overlay = "30 1 0:50 / / rw - overlay o rw,lowerdir=/ro,upperdir=/rw/up,workdir=/rw/w"
    nfs = "31 1 0:44 / /ro ro - nfs4 nas:/img ro,addr=10.0.0.9"

    assert here.root(overlay, nfs, "32 1 0:45 / /rw rw - tmpfs t rw").over_network is Known.YES
    assert here.root(overlay).over_network is Known.UNKNOWN


def test_command_line_against_the_mounts(here: Host) -> None:
    """root=/dev/nfs with a root in memory: somebody must look."""
    found = here.root("25 1 0:2 / / rw - tmpfs t rw", cmdline="root=/dev/nfs ip=dhcp")

    assert found.over_network is Known.UNKNOWN
    assert "root=/dev/nfs" in found.unknown[0]


def test_no_mount_table(here: Host) -> None:
    """Without it nothing is known."""
    assert root.look(Reader(here.base), lambda _: "x").over_network is Known.UNKNOWN


@given(st.text())
def test_mounts_never_raise(text: str) -> None:
    """Any text gives some mounts, or none."""
    assert all(isinstance(mount.point, str) for mount in mounts.parse(text))


def test_escapes_in_mounts() -> None:
    """Spaces are octal, and the last mount at a place covers the others."""
    table = list(
        mounts.parse("1 0 0:1 / /a\\040b rw - tmpfs x rw\n1 0 0:2 / /a\\040b rw - nfs y rw")
    )
    found = mounts.at(table, "/a b")

    assert found is not None
    assert found.fstype == "nfs"


def test_the_whole_look(here: Host) -> None:
    """Everything at once, JSON-able; what is not there is named."""
    here.disk("259:2", f"{NVME}/nvme0n1p2")
    here.put("/proc/self/mountinfo", LOCAL_ROOT + "\n")

    found = host.look(["eth0", "eth9"], base=here.base)

    assert [one.name for one in found.nics] == ["eth0"]
    assert found.missing == ("eth9",)
    assert found.nic("eth0") == found.nics[0]
    assert found.owner("eth0") == found.owners[0]
    assert "netlink" in found.unknown[0]
    json.dumps(dataclasses.asdict(found))
