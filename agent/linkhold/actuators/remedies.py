"""What to do when the kernel refuses a change of a bond: in words, by errno and message. Pure."""

from __future__ import annotations

import errno

BY_WORDS = (
    ("can not be enslaved while up", "something sets the NIC up again: stop its network manager"),
    ("Device is in use", "remove the macvlan, ipvlan or bridge on top of it first (ip -d link)"),
    ("does not support", "this NIC cannot be a member of such a bond; use fail_over_mac: active"),
    ("use_carrier", "this kernel knows no use_carrier; leave it out"),
    ("ARP monitoring cannot be used with MII", "use miimon_ms, or the ARP monitor, not both"),
)
"""Parts of extended-ack messages of the bonding driver (bond_main.c, bond_netlink.c)."""

NO_LINK = ": active_slave "
"""Of the words for a move to another member, which the kernel makes only to one that is up
(bond_option_active_slave_set)."""

BY_CODE = {
    errno.EPERM: "run this as root (CAP_NET_ADMIN in this network namespace)",
    errno.EACCES: "this option does not belong to mode active-backup",
    errno.EBUSY: "set the bond down first (ip link set BOND down), or take what is on top away",
    errno.ENOTEMPTY: "the bond has members, with which this cannot be changed: "
    "remove the bond (linkhold bond remove) and apply again",
    errno.EINVAL: "the kernel takes no such value here; compare with `modinfo bonding`",
    errno.EOPNOTSUPP: "the NIC or the kernel cannot do this; is the bonding module there "
    "(modprobe bonding max_bonds=0)?",
    errno.ENODEV: "the interface is gone; look with `ip link` and plan again",
    errno.EEXIST: "something else made this meanwhile; look with `ip link`, `ip address`, "
    "`ip route`, and plan again",
    errno.ENETUNREACH: "the gateway is not in a network of this host; look with `ip route`",
    errno.ENOBUFS: "the kernel is short of memory for this; try again",
    errno.ENOMEM: "the kernel is short of memory for this; try again",
}


def remedy_for(code: int, words: str, what: str) -> str:
    """Return what to do about a refusal: ``words`` is the kernel's text, ``what`` was tried."""
    if code == errno.EOPNOTSUPP and not what.startswith("create bond") and not words:
        return "the NIC cannot do this"
    if code == errno.EINVAL and NO_LINK in what:
        return "that member has no link now: check its cable and switch port, then try again"
    for part, remedy in BY_WORDS:
        if part in words:
            return remedy
    return BY_CODE.get(code, "")
