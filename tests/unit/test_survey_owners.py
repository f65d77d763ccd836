"""Who owns a NIC, from files as systemd 252, NetworkManager 1.42 and ifupdown 0.8 write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.model.survey import Owner, OwnerKind
from linkhold.survey import owners
from linkhold.survey.files import Reader, sections
from linkhold.survey.interfaces import Interfaces

if TYPE_CHECKING:
    from pathlib import Path

UUID = "2a7f7f3c-6d3e-4d43-9a58-1f0f6e7f3b11"
NETWORKD_LINK = """\
# This is private data. Do not parse.
ADMIN_STATE={admin}
OPER_STATE=routable
CARRIER_STATE=carrier
ADDRESS_STATE=routable
IPV4_ADDRESS_STATE=routable
IPV6_ADDRESS_STATE=off
ONLINE_STATE=online
REQUIRED_FOR_ONLINE=yes
REQUIRED_OPER_STATE_FOR_ONLINE=degraded
REQUIRED_FAMILY_FOR_ONLINE=any
ACTIVATION_POLICY=up
NETWORK_FILE={file}
DNS=
NTP=
SIP=
DOMAINS=
ROUTE_DOMAINS=
LLMNR=yes
MDNS=no
DHCP6_CLIENT_DUID=DUID-EN/Vendor:0000ab110033bdebf95e192c
"""
NETWORKD_UNMANAGED = """\
# This is private data. Do not parse.
ADMIN_STATE=unmanaged
OPER_STATE=degraded
CARRIER_STATE=carrier
ADDRESS_STATE=degraded
IPV4_ADDRESS_STATE=off
IPV6_ADDRESS_STATE=degraded
"""
NM_DEVICE = f"""\
[device]
managed=true
perm-hw-addr-fake=0E:16:65:8A:04:A8
connection-uuid={UUID}
nm-owned=false
route-metric-default-effective=100
"""
NM_PROFILE = f"""\
[connection]
id=office
uuid={UUID}
type=ethernet
interface-name=eth0

[ipv4]
address1=10.9.0.2/24,10.9.0.1
method={{method}}

[ipv6]
method=disabled
"""
NM_EXTERNAL = f"""\
[connection]
id=eth0
uuid={UUID}
type=ethernet
autoconnect=false
interface-name=eth0
timestamp=1796005421

[ipv4]
address1=10.9.2.2/24
method=manual

[proxy]

[.nmmeta]
nm-generated=true
volatile=true
external=true
"""
INTERFACES = """\
# This file describes the network interfaces available on your system
source /etc/network/interfaces.d/*

auto lo
iface lo inet loopback

allow-hotplug eth0
iface eth0 inet \\
    dhcp
iface eth0 inet6 auto
"""


class Host:
    """A host's files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("/proc/1/comm", "systemd\n")

    def put(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def run(self, pid: int, comm: str, *words: str) -> None:
        """Let a program run."""
        self.put(f"/proc/{pid}/comm", comm[:15] + "\n")
        self.put(f"/proc/{pid}/cmdline", "\0".join(words or (comm,)) + "\0")

    def owner(self, routes: frozenset[int] | None = frozenset()) -> Owner:
        """Return who owns eth0, whose index is 3."""
        return owners.look(Reader(self.root), {"eth0": 3}, routes)[0]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host on which nothing but init runs."""
    return Host(tmp_path)


def networkd(host: Host, file: str, profile: str, admin: str = "configured") -> None:
    """Let networkd run and have eth0 configured from ``file``."""
    host.run(400, "systemd-networkd")
    host.put("/run/systemd/netif/links/3", NETWORKD_LINK.format(admin=admin, file=file))
    host.put(file, profile)


def network_manager(host: Host, folder: str, name: str, profile: str) -> None:
    """Let NetworkManager run with a profile active on eth0."""
    host.run(500, "NetworkManager")
    host.put("/run/NetworkManager/devices/3", NM_DEVICE)
    host.put(f"{folder}/{name}", profile)


def test_nobody(host: Host) -> None:
    """With no program and no file the answer is certain."""
    owner = host.owner()

    assert (owner.kind, owner.dhcp, owner.unknown) == (OwnerKind.NOBODY, False, ())


def test_hidden_processes_leave_it_unknown(host: Host) -> None:
    """With hidepid a manager could run unseen."""
    (host.root / "proc/1/comm").unlink()

    owner = host.owner()

    assert owner.kind is OwnerKind.UNKNOWN
    assert "hidepid" in owner.unknown[0]


@pytest.mark.parametrize("admin", ["configured", "configuring", "failed"])
def test_networkd_static(host: Host, admin: str) -> None:
    """A link with a .network file is networkd's, in whichever state."""
    networkd(host, "/etc/systemd/network/20-lan.network", "[Network]\nDHCP=no\n", admin)

    owner = host.owner()

    assert (owner.kind, owner.native, owner.netplan) == (OwnerKind.NETWORKD, True, False)
    assert owner.profile_files == ("/etc/systemd/network/20-lan.network",)
    assert owner.dhcp is False


def test_networkd_under_netplan_with_dhcp(host: Host) -> None:
    """Netplan's files are named behind the one that it generated."""
    text = "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=ipv6\n"
    networkd(host, "/run/systemd/network/10-netplan-eth0.network", text)
    host.put("/etc/netplan/50-cloud-init.yaml", "network: {version: 2}\n")

    owner = host.owner()

    assert (owner.netplan, owner.dhcp) == (True, True)
    assert owner.profile_files[1:] == ("/etc/netplan/50-cloud-init.yaml",)


def test_networkd_lease_and_drop_in(host: Host) -> None:
    """A lease shows DHCP; a drop-in of the higher folder hides one of the same name."""
    file = "/usr/lib/systemd/network/80-ethernet.network"
    networkd(host, file, "[Network]\nDHCP=yes\n")
    for folder in ("/etc", "/run"):
        host.put(f"{folder}/systemd/network/80-ethernet.network.d/a.conf", "[Network]\nDHCP=no\n")

    assert host.owner().dhcp is False
    assert host.owner().profile_files[1] == "/etc/systemd/network/80-ethernet.network.d/a.conf"
    host.put("/run/systemd/netif/leases/3", "ADDRESS=10.0.0.7\n")
    assert host.owner().dhcp is True


def test_networkd_leaves_it_alone(host: Host) -> None:
    """A link without a .network file, or an unmanaged one, is nobody's."""
    host.run(400, "systemd-networkd")
    host.put("/run/systemd/netif/links/3", NETWORKD_UNMANAGED)

    assert host.owner().kind is OwnerKind.NOBODY


def test_networkd_undecided(host: Host) -> None:
    """A link that udev has not passed on yet may become networkd's."""
    host.run(400, "systemd-networkd")
    text = "# This is private data. Do not parse.\nADMIN_STATE=pending\nOPER_STATE=off\n"
    host.put("/run/systemd/netif/links/3", text)

    assert host.owner().kind is OwnerKind.UNKNOWN


def test_networkd_stopped_but_enabled(host: Host) -> None:
    """It would take the NIC at the next boot: nobody is then not certain."""
    host.put("/run/systemd/netif/links/3", NETWORKD_LINK.format(admin="configured", file="/x"))
    unit = "systemd-networkd.service"
    host.link(f"/etc/systemd/system/multi-user.target.wants/{unit}", f"/lib/systemd/system/{unit}")

    owner = host.owner()

    assert owner.kind is OwnerKind.UNKNOWN
    assert "enabled but does not run" in owner.unknown[0]


@pytest.mark.parametrize(("method", "dhcp"), [("manual", False), ("auto", True)])
def test_network_manager(host: Host, method: str, *, dhcp: bool) -> None:
    """The profile is found by its UUID."""
    folder = "/etc/NetworkManager/system-connections"
    network_manager(host, folder, "office.nmconnection", NM_PROFILE.format(method=method))

    owner = host.owner()

    assert (owner.kind, owner.native) == (OwnerKind.NETWORK_MANAGER, True)
    assert owner.profile_files == (f"{folder}/office.nmconnection",)
    assert (owner.connection_uuid, owner.dhcp, owner.netplan) == (UUID, dhcp, False)


def test_network_manager_under_netplan(host: Host) -> None:
    """Netplan's profiles for NetworkManager lie in /run."""
    folder = "/run/NetworkManager/system-connections"
    text = NM_PROFILE.format(method="auto")
    network_manager(host, folder, "netplan-eth0.nmconnection", text)

    assert host.owner().netplan is True


def test_network_manager_only_watches(host: Host) -> None:
    """What nmcli shows as "connected (externally)" is not NetworkManager's."""
    folder = "/run/NetworkManager/system-connections"
    network_manager(host, folder, "eth0.nmconnection", NM_EXTERNAL)

    assert host.owner().kind is OwnerKind.NOBODY


def test_network_manager_without_profile(host: Host) -> None:
    """A managed, disconnected device is its own: any autoconnect profile may take it."""
    host.run(500, "NetworkManager")
    host.put("/run/NetworkManager/devices/3", "[device]\nmanaged=true\nnm-owned=false\n")

    owner = host.owner()

    assert (owner.kind, owner.connection_uuid) == (OwnerKind.NETWORK_MANAGER, "")


@pytest.mark.parametrize("managed", ["managed=false\n", ""])
def test_network_manager_unmanaged(host: Host, managed: str) -> None:
    """Neither an explicit no nor a missing word is a claim."""
    host.run(500, "NetworkManager")
    host.put("/run/NetworkManager/devices/3", f"[device]\n{managed}nm-owned=false\n")

    assert host.owner().kind is OwnerKind.NOBODY


def test_network_manager_profile_unseen(host: Host) -> None:
    """Without the profile (0600) DHCP is unknown, not absent."""
    host.run(500, "NetworkManager")
    host.put("/run/NetworkManager/devices/3", NM_DEVICE)

    owner = host.owner()

    assert owner.kind is OwnerKind.NETWORK_MANAGER
    assert owner.dhcp is None
    assert UUID in owner.unknown[0]


def test_network_manager_in_a_container(host: Host) -> None:
    """A manager in another network namespace owns nothing here."""
    folder = "/etc/NetworkManager/system-connections"
    network_manager(host, folder, "office.nmconnection", NM_PROFILE.format(method="auto"))
    host.link("/proc/self/ns/net", "net:[4026531840]")
    host.link("/proc/500/ns/net", "net:[4026532500]")

    assert host.owner().kind is OwnerKind.NOBODY


def test_ifupdown_with_its_dhclient(host: Host) -> None:
    """A dhclient that ifup started is a helper, not a rival."""
    host.put("/sbin/ifup", "")
    host.put("/etc/network/interfaces", INTERFACES)
    host.put("/run/network/ifstate", "lo=lo\neth0=eth0\n")
    words = "-4 -v -i -pf /run/dhclient.eth0.pid -lf /var/lib/dhcp/dhclient.eth0.leases -I eth0"
    host.run(700, "dhclient", "dhclient", *words.split())

    owner = host.owner()

    assert (owner.kind, owner.dhcp, owner.pids) == (OwnerKind.IFUPDOWN, True, (700,))
    assert owner.contenders == ()
    assert owner.evidence[0] == "/etc/network/interfaces: iface eth0 dhcp"


def test_ifupdown_in_a_sourced_file(host: Host) -> None:
    """Files of ``source`` are read; ifupdown2 shows by its folder."""
    host.put("/sbin/ifup", "")
    host.put("/etc/network/ifupdown2/ifupdown2.conf", "")
    host.put("/etc/network/interfaces", "source interfaces.d/*\nauto all\n")
    host.put("/etc/network/interfaces.d/eth0", "iface eth0 inet static\n address 10.0.0.2/24\n")

    owner = host.owner()

    assert (owner.kind, owner.dhcp) == (OwnerKind.IFUPDOWN2, False)
    assert owner.profile_files == ("/etc/network/interfaces.d/eth0",)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("iface eth0 inet manual\n", OwnerKind.NOBODY),
        ("auto eth0\niface eth0 inet manual\n", OwnerKind.IFUPDOWN),
        ("iface eth0 inet manual\niface br0 inet dhcp\n bridge_ports eth0\n", OwnerKind.IFUPDOWN),
        ("iface bond0 inet dhcp\n bond-slaves eth0 eth1\n", OwnerKind.IFUPDOWN),
        ("iface eth0.5 inet dhcp\n", OwnerKind.IFUPDOWN),
        ("iface /eth* inet dhcp\n", OwnerKind.IFUPDOWN),
        ("mapping eth*\n script /x\n", OwnerKind.IFUPDOWN),
        ("iface eth01 inet dhcp\n", OwnerKind.NOBODY),
        ("# iface eth0 inet dhcp\n", OwnerKind.NOBODY),
    ],
)
def test_ifupdown_claims(host: Host, text: str, kind: OwnerKind) -> None:
    """``manual`` alone lets go; ports, VLANs, patterns and mappings do not."""
    host.put("/usr/sbin/ifup", "")
    host.put("/etc/network/interfaces", text)

    assert host.owner().kind is kind


def test_ifupdown_files_without_the_program(host: Host) -> None:
    """Left-over files configure nothing."""
    host.put("/etc/network/interfaces", INTERFACES)

    assert host.owner().kind is OwnerKind.NOBODY


@pytest.mark.parametrize(
    ("comm", "words", "kind"),
    [
        ("dhclient", "dhclient -1 eth0", OwnerKind.DHCLIENT),
        ("dhclient", "dhclient -1 eth1", OwnerKind.NOBODY),
        ("dhclient", "dhclient -cf /var/lib/NetworkManager/x.conf eth0", OwnerKind.NOBODY),
        ("udhcpc", "udhcpc -i eth0", OwnerKind.DHCLIENT),
        ("dhcpcd", "dhcpcd: eth0 [ip4]", OwnerKind.DHCPCD),
        ("dhcpcd", "dhcpcd: [manager] [ip4] [ip6]", OwnerKind.DHCPCD),
        ("dhcpcd", "dhcpcd: eth1 [ip4]", OwnerKind.NOBODY),
        ("connmand", "/usr/sbin/connmand -n", OwnerKind.CONNMAN),
        ("wickedd", "/usr/sbin/wickedd --systemd", OwnerKind.NOBODY),
    ],
)
def test_other_programs(host: Host, comm: str, words: str, kind: OwnerKind) -> None:
    """Each is found by its name and what it runs for."""
    host.run(800, comm, *words.split())

    assert host.owner().kind is kind


def test_dhcpcd_denied(host: Host) -> None:
    """A manager of all interfaces leaves those alone that its file denies."""
    host.run(800, "dhcpcd", "dhcpcd: [manager] [ip4] [ip6]")
    host.put("/etc/dhcpcd.conf", "hostname\ndenyinterfaces bond0 eth*\n")

    assert host.owner().kind is OwnerKind.NOBODY


def test_wicked(host: Host) -> None:
    """Wicked owns what has an ifcfg file."""
    host.run(800, "wickedd")
    host.put("/etc/sysconfig/network/ifcfg-eth0", "BOOTPROTO='dhcp'\nSTARTMODE='auto'\n")

    assert (host.owner().kind, host.owner().dhcp) == (OwnerKind.WICKED, True)


def test_two_managers(host: Host) -> None:
    """The other one is named as a contender."""
    networkd(host, "/etc/systemd/network/20-lan.network", "[Network]\nDHCP=yes\n")
    host.run(700, "dhclient", "dhclient", "eth0")

    owner = host.owner()

    assert (owner.kind, owner.contenders) == (OwnerKind.NETWORKD, (OwnerKind.DHCLIENT,))


def test_unreadable_is_unknown(host: Host) -> None:
    """A state file that may not be read (here: a link to itself) is no "nobody"."""
    host.run(400, "systemd-networkd")
    host.link("/run/systemd/netif/links/3", "3")

    owner = host.owner()

    assert owner.kind is OwnerKind.UNKNOWN
    assert owner.dhcp is None
    assert "/run/systemd/netif/links/3" in owner.unknown[0]


def test_lease_that_nobody_owns(host: Host) -> None:
    """Routes of a lease without a client: somebody must be there."""
    owner = host.owner(routes=frozenset({3}))

    assert (owner.kind, owner.dhcp) == (OwnerKind.UNKNOWN, True)


@given(st.text(st.sampled_from("iface auto\\\n\t #=/*.%${}eth0:manual-source")) | st.text())
def test_interfaces_parser_never_raises(text: str) -> None:
    """Whatever the file holds, every question has an answer."""
    found = Interfaces()
    found.add(text)

    assert isinstance(found.methods("eth0"), tuple)
    assert found.automatic("eth0") in {True, False}
    assert found.mapped("eth0") in {True, False}
    assert isinstance(found.users("eth0"), tuple)


@given(st.text())
def test_sections_never_raise(text: str) -> None:
    """INI texts of any content give a mapping."""
    assert "" in sections(text)
