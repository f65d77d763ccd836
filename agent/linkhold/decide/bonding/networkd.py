"""A bond as profiles of systemd-networkd, also below netplan, and the live hand-over. Pure.

docs/handover.md has what was measured. networkd takes the first .network file that matches, in
the order of names whatever the folder, so that ``05-linkhold-`` comes before ``10-netplan-`` and
most others; the files that were there stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bonding.profiles import Profile, Section, parse
from linkhold.decide.bonding.steps import Run, WriteFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.bonding.steps import Step
    from linkhold.decide.bonding.wanted import Wanted

FOLDER = "/etc/systemd/network"
HEAD = "Made by linkhold (bond apply); taken away by: linkhold bond remove {bond}"
RESTART = Run(("systemctl", "restart", "systemd-networkd"))
"""Never reload: onto Unmanaged=yes it drops addresses and leases (link_drop_managed_config)."""
FAIL_OVER_MACS = ("none", "active", "follow")


def aside_path(bond: str) -> str:
    """Return the file that keeps networkd from the NICs while they are moved."""
    return f"{FOLDER}/00-linkhold-{bond}.network"


def take(bond: str, members: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the steps after which networkd leaves the members and the bond alone."""
    match = Section("Match", (f"Name={' '.join((*members, bond))}",))
    link = Section("Link", ("Unmanaged=yes", "RequiredForOnline=no"))
    text = Profile((match, link)).text(HEAD.format(bond=bond))
    return (WriteFile(aside_path(bond), text), RESTART)


def give(wanted: Wanted, mac: str, source: str, client: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps after which networkd owns the bond as it owned the live NIC.

    ``source`` is the text of the NIC's .network file with its drop-ins; ``client`` holds the
    DHCP client's identity (``ClientIdentifier``, ``IAID``, ``DUIDRawData`` ...), so that the lease
    stays the same.
    """
    files = profiles(wanted, mac, source, client)
    writes = (WriteFile(path, text) for path, text in files.items())
    return (*writes, WriteFile(aside_path(wanted.name), None), RESTART)


def profiles(wanted: Wanted, mac: str, source: str, client: Mapping[str, str]) -> dict[str, str]:
    """Return the files that make networkd bring the bond up at every boot: path -> text."""
    head = HEAD.format(bond=wanted.name)
    base = f"{FOLDER}/05-linkhold-{wanted.name}"
    files = {
        f"{base}.netdev": netdev(wanted, mac).text(head),
        f"{base}.network": _of_bond(wanted, source, client).text(head),
        f"{base}.link": _link(wanted).text(head),
        f"/etc/udev/rules.d/70-linkhold-{wanted.name}.rules": _udev_rule(wanted, head),
    }
    for name in wanted.members:
        files[f"{base}-{name}.network"] = _of_member(wanted, name).text(head)
    return files


def netdev(wanted: Wanted, mac: str) -> Profile:
    """Return the .netdev; systemd 252 has no key for peer_notif_delay, see :func:`_udev_rule`."""
    options = wanted.options
    own = [f"Name={wanted.name}", "Kind=bond"]
    own += [f"MACAddress={mac}"] if mac else []
    own += [f"MTUBytes={wanted.settings.mtu_bytes}"] if wanted.settings.mtu_bytes else []
    bond = (
        "Mode=active-backup",
        f"MIIMonitorSec={options['miimon']}ms",
        f"UpDelaySec={options['updelay']}ms",
        f"DownDelaySec={options['downdelay']}ms",
        "PrimaryReselectPolicy=failure",
        f"FailOverMACPolicy={FAIL_OVER_MACS[wanted.fail_over_mac]}",
        f"GratuitousARP={options['num_peer_notif']}",
        f"ResendIGMP={options['resend_igmp']}",
        "AllSlavesActive=no",
    )
    return Profile((Section("NetDev", tuple(own)), Section("Bond", bond)))


def _udev_rule(wanted: Wanted, head: str) -> str:
    """Set what networkd does not: written to sysfs when the bond appears, miimon being set."""
    delay = wanted.options["peer_notif_delay"]
    rule = f'ACTION=="add", SUBSYSTEM=="net", KERNEL=="{wanted.name}"'
    return f'# {head}\n{rule}, ATTR{{bonding/peer_notif_delay}}="{delay}"\n'


def _link(wanted: Wanted) -> Profile:
    """99-default.link would give a new bond a generated MAC (MACAddressPolicy=persistent)."""
    match = Section("Match", (f"OriginalName={wanted.name}",))
    return Profile((match, Section("Link", ("MACAddressPolicy=none",))))


def _of_bond(wanted: Wanted, source: str, client: Mapping[str, str]) -> Profile:
    sections = [one for one in parse(source).sections if one.name != "Match"]
    sections = [
        one.without("MACAddress", "MTUBytes", "Unmanaged") if one.name == "Link" else one
        for one in sections
    ]
    if client:
        sections.append(Section("DHCPv4", tuple(f"{k}={v}" for k, v in client.items())))
    match = Section("Match", (f"Name={wanted.name}",))
    return Profile((match, *sections))


def _of_member(wanted: Wanted, name: str) -> Profile:
    network = [f"Bond={wanted.name}", "LinkLocalAddressing=no"]
    network += ["PrimarySlave=yes"] if name == wanted.primary else []
    return Profile(
        (
            Section("Match", (f"Name={name}",)),
            Section("Link", ("RequiredForOnline=no",)),
            Section("Network", tuple(network)),
        )
    )


def hand_back() -> tuple[Step, ...]:
    """Return the steps after files were restored: networkd owns the NICs as before."""
    return (RESTART,)
