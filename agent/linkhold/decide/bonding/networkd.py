"""A bond as profiles of systemd-networkd, also below netplan, and the live hand-over. Pure.

docs/handover.md has what was measured with systemd 252, step by step. networkd takes the first
.network file that matches, in the order of names whatever the folder; the files that were there
stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.bonding.profiles import Profile, Section, parse
from linkhold.decide.bonding.steps import Run, WriteFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.decide.bonding.steps import Step
    from linkhold.decide.bonding.wanted import Wanted

FOLDER, RUN_FOLDER = "/etc/systemd/network", "/run/systemd/network"
PREFIX = "05-linkhold-"
"""Sorts before netplan's ``10-netplan-`` and most others."""
HEAD = "Made by linkhold (bond apply); taken away by: linkhold bond remove {bond}"
RESTART = Run(("systemctl", "restart", "systemd-networkd"))
"""Never reload: onto Unmanaged=yes it drops addresses and leases (link_drop_managed_config)."""
KEEP = "[Network]\nKeepConfiguration=yes\n"
FOREIGN = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"
FOREIGN_PATH = "/run/systemd/networkd.conf.d/90-linkhold.conf"
FAIL_OVER_MACS = ("none", "active", "follow")


def _aside(bond: str, names: tuple[str, ...]) -> WriteFile:
    """Return what keeps networkd from interfaces until the next boot: it is in /run."""
    match = Section("Match", (f"Name={' '.join(names)}",))
    text = Profile((match, Section("Link", ("Unmanaged=yes",)))).text(HEAD.format(bond=bond))
    return WriteFile(f"{RUN_FOLDER}/00-linkhold-{bond}.network", text)


def keep_path(profile: str) -> str:
    """Return the drop-in by which networkd's restart keeps what a profile configured."""
    file = profile.rpartition("/")[2]
    return f"{RUN_FOLDER}/{file}.d/90-linkhold-keep.conf"


def bond_profile(bond: str) -> str:
    """Return the .network file of the bond."""
    return f"{FOLDER}/{PREFIX}{bond}.network"


def keep(profiles: Iterable[str]) -> tuple[WriteFile, ...]:
    """Return the files with which a restart of networkd changes nothing.

    ``profiles`` are the .network files in use, those of other links too: without these drop-ins
    a restart drops foreign routes and rules, and every address for some milliseconds.
    """
    files = [keep_path(profile) for profile in dict.fromkeys(profiles)]
    return (*(WriteFile(path, KEEP) for path in files), WriteFile(FOREIGN_PATH, FOREIGN))


def take(bond: str, members: tuple[str, ...], in_use: Iterable[str]) -> tuple[Step, ...]:
    """Return the steps after which networkd leaves the members and the bond alone."""
    return (_aside(bond, (*members, bond)), *keep(in_use), RESTART)


def volatile(bond: str, members: tuple[str, ...]) -> tuple[WriteFile, ...]:
    """Return the files with which a restart of networkd leaves the standing bond alone.

    Without them it takes all members down at once, though they are members already. They are
    in /run: at a boot networkd has to make the bond.
    """
    return (_aside(bond, members), WriteFile(keep_path(bond_profile(bond)), KEEP))


def give(
    wanted: Wanted, mac: str, source: str, client: Mapping[str, str], in_use: Iterable[str]
) -> tuple[Step, ...]:
    """Return the steps after which networkd owns the bond as it owned the live NIC.

    ``source`` is the text of the NIC's .network file with its drop-ins; ``client`` the IAID of its
    DHCP client, so that the lease stays the same.
    """
    files = profiles(wanted, mac, source, client)
    return (
        *(WriteFile(path, text) for path, text in files.items()),
        *volatile(wanted.name, wanted.members),
        RESTART,
        *(WriteFile(path, None) for path in kept_paths(in_use)),
    )


def kept_paths(in_use: Iterable[str]) -> tuple[str, ...]:
    """Return the files that :func:`keep` writes, which nobody needs after the last restart."""
    return tuple(step.path for step in keep(in_use))


def profiles(wanted: Wanted, mac: str, source: str, client: Mapping[str, str]) -> dict[str, str]:
    """Return the files that make networkd bring the bond up at every boot: path -> text."""
    head = HEAD.format(bond=wanted.name)
    base = f"{FOLDER}/{PREFIX}{wanted.name}"
    files = {
        f"{base}.netdev": netdev(wanted, mac).text(head),
        bond_profile(wanted.name): _of_bond(wanted, source, client).text(head),
        f"/etc/udev/rules.d/70-linkhold-{wanted.name}.rules": _udev_rule(wanted, head),
    }
    if not mac:
        files[f"{base}.link"] = _link(wanted).text(head)
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
    """Keep 99-default.link from giving a bond without MACAddress= a generated one."""
    match = Section("Match", (f"OriginalName={wanted.name}",))
    return Profile((match, Section("Link", ("MACAddressPolicy=none",))))


def _of_bond(wanted: Wanted, source: str, client: Mapping[str, str]) -> Profile:
    old = parse(source)
    kept = [one for one in old.sections if one.name not in {"Match", "Link"}]
    if client:
        lines = tuple(f"{key}={value}" for key, value in client.items())
        kept.append(Section("DHCPv4", lines))
        # DHCPv6's is made from the interface's name as well.
        if not any(one.value("IAID") for one in old.sections if one.name == "DHCPv6"):
            kept.append(Section("DHCPv6", lines))
    match = Section("Match", (f"Name={wanted.name}",))
    return Profile((match, *kept))


def _of_member(wanted: Wanted, name: str) -> Profile:
    network = [f"Bond={wanted.name}", "LinkLocalAddressing=no"]
    network += ["PrimarySlave=yes"] if name == wanted.primary else []
    link = Section("Link", ("RequiredForOnline=no",))
    match = Section("Match", (f"Name={name}",))
    return Profile((match, link, Section("Network", tuple(network))))
