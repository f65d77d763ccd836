"""The hand-over sequences of docs/handover.md: no loss live, and the bond is there after a reboot.

They use plain files and ``ip``, no linkhold: they say what the managers do, for the code that
counts on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lab import Box, scenario
from support.topology import NICS, NODE_4, NODE_MACS, ip, ip_batch, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.systemd import Machine, Manager

    Maker = Callable[..., Machine]

NETWORK = "/etc/systemd/network"
VOLATILE = "/run/systemd/network"
PROFILES = "/etc/NetworkManager/system-connections"
STATES = "/run/NetworkManager/devices"
UUIDS = {
    name: f"6f0c7d0c-6a3e-4f0e-9d8f-0000000000{end}"
    for name, end in (("bond0", "b0"), ("eth0", "e0"), ("eth1", "e1"))
}
BY_NETWORKD = "[Match]\nName={name}\n\n[Network]\nDHCP=ipv4\n"
BY_NETWORK_MANAGER = """\
[connection]
id=wired
uuid=6f0c7d0c-6a3e-4f0e-9d8f-000000000001
type=ethernet
interface-name=eth0

[ipv4]
method=auto

[ipv6]
method=ignore
"""
KERNEL = "2"
OPTIONS = "mode active-backup miimon 50 primary_reselect failure num_grat_arp 5"
NETDEV = f"""\
[NetDev]
Name=bond0
Kind=bond
MACAddress={NODE_MACS[0]}

[Bond]
Mode=active-backup
MIIMonitorSec=50ms
PrimaryReselectPolicy=failure
GratuitousARP=5
"""
PORTS = "[Match]\nName=eth0 eth1\n\n[Network]\nBond=bond0\n"
UNMANAGED = "[Match]\nName={names}\n\n[Link]\nUnmanaged=yes\n"
KEEP = "[Network]\nKeepConfiguration=yes\n"
BOND_PROFILE = f"""\
[connection]
id=linkhold-bond0
uuid={UUIDS["bond0"]}
type=bond
interface-name=bond0
autoconnect-slaves=1

[ethernet]
cloned-mac-address={NODE_MACS[0]}

[bond]
mode=active-backup
miimon=50
primary_reselect=failure
num_grat_arp=5
num_unsol_na=5
peer_notif_delay=200

[ipv4]
method=auto
route-metric=100

[ipv6]
method=ignore
"""
PORT_PROFILE = """\
[connection]
id=linkhold-{name}
uuid={uuid}
type=ethernet
interface-name={name}
master=bond0
slave-type=bond
autoconnect-priority=100
"""


@scenario(timeout_s=60)
def hand_over(box: Box, manager: Manager) -> dict[str, object]:
    """Move eth0 into a bond and give that to the manager, under one probe."""
    net = box.two_switches()
    wait_until(lambda: NODE_4 in ip("-4", "addr", "show", "eth0"), "address", timeout_s=15)
    wait_until(net.answers, "the gateway answers")
    ip("route", "add", "172.16.0.0/16", "via", "10.0.0.1", "dev", "eth0")
    with net.probe() as probe:
        (_with_networkd if manager == "networkd" else _with_network_manager)()
        time.sleep(3)  # the manager takes over after its start has returned
    return {"lost": probe.traffic.lost, **_state()}


@scenario(timeout_s=30)
def state_after_boot(box: Box) -> dict[str, object]:
    """Wait until the gateway answers, and tell what there is."""
    wait_until(box.two_switches().answers, "the gateway answers", timeout_s=15)
    wait_until(lambda: len(_members()) == 2, "two members")
    return _state()


def _with_networkd() -> None:
    text = BY_NETWORKD.format(name="bond0") + f"\n[DHCPv4]\nIAID={_iaid()}\n"
    _write(f"{VOLATILE}/00-linkhold.network", UNMANAGED.format(names="eth0 eth1 bond0"))
    _say("systemctl", "restart", "systemd-networkd")
    _make_before_break()
    _write(f"{NETWORK}/05-linkhold-bond0.netdev", NETDEV)
    _write(f"{NETWORK}/05-linkhold-bond0.network", text)
    _write(f"{NETWORK}/05-linkhold-ports.network", PORTS)
    _write(f"{VOLATILE}/05-linkhold-bond0.network.d/90-linkhold-keep.conf", KEEP)
    _write(f"{VOLATILE}/00-linkhold.network", UNMANAGED.format(names="eth0 eth1"))
    _say("systemctl", "restart", "systemd-networkd")


def _iaid() -> int:
    """Return what makes eth0's DHCP client identifier its own; networkd would derive another."""
    index = Path("/sys/class/net/eth0/ifindex").read_text(encoding="ascii").strip()
    lease = Path(f"/run/systemd/netif/leases/{index}").read_text(encoding="ascii")
    (line,) = (line for line in lease.splitlines() if line.startswith("CLIENTID=ff"))
    return int(line.removeprefix("CLIENTID=ff")[:8], 16)


def _with_network_manager() -> None:
    _say("systemctl", "stop", "NetworkManager")
    _make_before_break()
    _write(f"{PROFILES}/linkhold-bond0.nmconnection", BOND_PROFILE)
    for name in NICS:
        text = PORT_PROFILE.format(name=name, uuid=UUIDS[name])
        _write(f"{PROFILES}/linkhold-{name}.nmconnection", text)
    for name, uuid in UUIDS.items():
        index = Path(f"/sys/class/net/{name}/ifindex").read_text(encoding="ascii").strip()
        owned = "nm-owned=true\n" if name == "bond0" else ""
        _write(f"{STATES}/{index}", f"[device]\nmanaged=true\nconnection-uuid={uuid}\n{owned}")
    _say("systemctl", "start", "NetworkManager")


def _make_before_break() -> None:
    """Move eth0's IPv4 into a bond over eth1, then eth0 as well."""
    ip_batch(
        [
            f"link add bond0 address {NODE_MACS[0]} type bond {OPTIONS}",
            "addr flush dev eth1",
            "link set eth1 down",
            "link set eth1 master bond0",
            "link set bond0 addrgenmode none up",
        ]
    )
    wait_until(lambda: "LOWER_UP" in ip("-o", "link", "show", "bond0"), "carrier on bond0")
    ip_batch([*_addresses(), *_routes()])
    ip_batch(["addr flush dev eth0", "link set eth0 down", "link set eth0 master bond0"])


def _addresses() -> list[str]:
    lines = []
    for had in _shown():
        # What networkd finds with this flag, it leaves without a route; NetworkManager sets it.
        flag = " noprefixroute" if had.get("noprefixroute") else ""
        metric = f" metric {had['metric']}" if "metric" in had else ""
        times = f" valid_lft {had['valid_life_time']} preferred_lft {had['preferred_life_time']}"
        address = f"{had['local']}/{had['prefixlen']}"
        lines.append(f"addr add {address} brd + dev bond0{metric}{times}{flag}")
    return lines


def _shown() -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads(ip("-j", "-4", "addr", "show", "eth0"))
    return list(shown[0]["addr_info"])


def _routes() -> list[str]:
    """Connected routes go first: a gateway must be reachable where its route is to lead."""
    routes = json.loads(ip("-j", "-N", "-4", "route", "show", "dev", "eth0"))
    routes.sort(key=lambda route: "gateway" in route)
    by_kernel = not any(had.get("noprefixroute") for had in _shown())
    return [_moved(route, by_kernel=by_kernel) for route in routes]


def _moved(route: dict[str, Any], *, by_kernel: bool) -> str:
    words = {"via": "gateway", "proto": "protocol", "scope": "scope", "src": "prefsrc"}
    words["metric"] = "metric"
    told = " ".join(f"{word} {route[key]}" for word, key in words.items() if key in route)
    if by_kernel and route.get("protocol") == KERNEL:
        return f"route del {route['dst']} dev eth0 {told}"  # bond0 has got its own by now
    return f"route replace {route['dst']} dev bond0 {told}"


def _state() -> dict[str, object]:
    shown = json.loads(ip("-j", "-4", "addr"))
    default = json.loads(ip("-j", "-4", "route", "show", "default"))
    return {
        "addresses": {
            link["ifname"]: [had["local"] for had in link["addr_info"]]
            for link in shown
            if link["ifname"] != "lo"
        },
        "default": [(route["dev"], route["gateway"]) for route in default],
        "members": _members(),
        "extra route": "bond0" in ip("route", "show", "172.16.0.0/16"),
        "bond profile active": "linkhold-bond0" in _active_profiles(),
    }


def _members() -> list[str]:
    path = Path("/sys/class/net/bond0/bonding/slaves")
    return sorted(path.read_text(encoding="ascii").split()) if path.exists() else []


def _active_profiles() -> str:
    """Return what each manager says it uses."""
    says = subprocess.run(
        "networkctl status bond0 --no-pager; nmcli con show --active",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    return says.stdout


def _write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600 if name.startswith(PROFILES) else 0o644)


def _say(*command: str) -> None:
    subprocess.run(command, check=True)


MANAGERS: dict[Manager, dict[str, str]] = {
    "networkd": {f"{NETWORK}/10-eth0.network": BY_NETWORKD.format(name="eth0")},
    "NetworkManager": {f"{PROFILES}/wired.nmconnection": BY_NETWORK_MANAGER},
}


@pytest.mark.skipif(
    "LINKHOLD_LAB_FULL" not in os.environ,
    reason="managers without linkhold: make lab-full (with it: test_bond_native.py)",
)
@pytest.mark.parametrize(("manager", "files"), MANAGERS.items(), ids=MANAGERS)
def test_bond_is_handed_over_without_loss(
    systemd_machine: Maker, manager: Manager, files: dict[str, str]
) -> None:
    """A bond moved by hand is adopted with its DHCP lease and routes, and is there after a boot."""
    machine = systemd_machine(manager, files, dhcp_lease_s=3600)
    expected = {
        "addresses": {"bond0": [NODE_4]},
        "default": [["bond0", "10.0.0.1"]],
        "members": ["eth0", "eth1"],
        "extra route": True,
        "bond profile active": True,
    }

    live = machine.run(hand_over, manager=manager).value
    machine.reboot()

    assert live.pop("lost") <= 2  # one probe each way while the switches learn
    assert live == expected
    assert machine.run(state_after_boot).value == {**expected, "extra route": False}
