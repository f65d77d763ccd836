"""Keys that people know from elsewhere, and what linkhold has instead.

They come from the kernel (``ip link``, sysfs), ifupdown and ifenslave, netplan, systemd-networkd,
NetworkManager, nmstate and Ansible.
"""

from __future__ import annotations

from typing import Any

from linkhold.config.settings import BondSettings, Settings

_ONLY = "linkhold makes active-backup bonds only"
_OTHER_MODES = f"it is for other modes, and {_ONLY}"
_ARP = (
    "the kernel's ARP monitor excludes MII monitoring (miimon 0 would follow); "
    "use detect: probe with targets"
)
_ADDRESSES = "addresses and routes move from the NIC to the bond as they are; leave it out"
_FLAT = "leave this level out; its keys stand directly in the bond"


def advice(section: Any, name: str) -> str:
    """Return what to do instead of the unknown key ``name`` of a section, or empty."""
    plain_name = name.lower().replace("-", "").replace("_", "")
    table = _TABLES.get(section, {})
    return table.get(plain_name) or table.get(plain_name.removeprefix("bond"), "")


def _table(*groups: tuple[str, str]) -> dict[str, str]:
    """Return key -> advice, from pairs of advice and keys (lower case, without - and _)."""
    return {key: text for text, keys in groups for key in keys.split()}


_BOND = _table(
    (f"{_ONLY}; leave it out", "mode"),
    (
        _OTHER_MODES,
        (
            "lacprate lacpactive lacptransmitrate xmithashpolicy transmithashpolicy adselect "
            "adactorsystem adactorsysprio aduserportkey minlinks packetsperslave packetspermember "
            "packetsperport lpinterval learnpacketinterval learnpacketintervalsec tlbdynamiclb "
            "dynamictransmitloadbalancing allslavesactive allmembersactive allportsactive "
            "coupledcontrol broadcastneighbor"
        ),
    ),
    (
        _ARP,
        (
            "arpinterval arpintervalsec arpiptarget arpiptargets arpvalidate arpalltargets "
            "arpmissedmax missedmax nsip6target nsip6targets arpmonitor"
        ),
    ),
    (
        "use members, a list",
        "slaves slave interfaces interface ports port links nics devices ifaces member",
    ),
    ("use miimon_ms", "miimon miimonitorsec miimonitorinterval miimonitor linkmonitoring"),
    ("use updelay_ms", "updelay updelaysec linkupdelay"),
    ("use downdelay_ms", "downdelay downdelaysec linkdowndelay"),
    ("use mtu_bytes", "mtu mtubytes"),
    ("use fail_over_mac", "failovermac failovermacpolicy"),
    (
        "use peer_notifications",
        "numgratarp numunsolna numpeernotif gratuitousarp gratuitiousarp peernotification",
    ),
    ("use peer_notif_delay_ms", "peernotifdelay peernotifydelay peernotifydelaysec"),
    ("use primary", "primary primaryslave primarymember primaryport primarydevice"),
    (
        "which member is active is no setting; use primary for the preferred one",
        "activeslave activemember activeport active",
    ),
    (
        "primary_reselect is always failure: linkhold moves back after checking the path",
        "primaryreselect primaryreselectpolicy",
    ),
    ("the driver's carrier is always used, as newer kernels know no other way", "usecarrier"),
    ("linkhold leaves the kernel's default, 1", "resendigmp"),
    (_FLAT, "parameters options linkaggregation bond bonding"),
    ("the name of the bond is the key above", "name ifname interfacename"),
    (
        "the bond has the MAC of the NIC that carries now; see fail_over_mac",
        "macaddress mac hwaddress hwaddr",
    ),
    (
        _ADDRESSES,
        (
            "address addresses dhcp4 dhcp6 dhcp gateway gateway4 gateway6 routes nameservers dns "
            "netmask ipv4 ipv6 ip4 ip6 gw4 gw6 acceptra"
        ),
    ),
)
_TOP = _table(
    ("netplan's files are not read; write bonds: at the top level", "network renderer ethernets"),
    ("use bonds", "bond bonding netdev netdevs"),
    ("interfaces with a special role stand under links, bonds under bonds", "interfaces"),
)
_TABLES: dict[Any, dict[str, str]] = {BondSettings: _BOND, Settings: _TOP}
