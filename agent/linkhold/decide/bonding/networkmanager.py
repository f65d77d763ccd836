"""A bond as profiles of NetworkManager, and the live hand-over. Pure.

docs/handover.md has what was measured. NetworkManager is stopped while the NICs move: a stop leaves
addresses and links as they are, while a device that becomes unmanaged at run time is taken down
and flushed (nm_device_cleanup). Whoever starts it meanwhile finds a file by which it leaves them
alone; and it is stopped once more before it shall adopt the bond, for it looks only when it starts.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from linkhold.decide.bonding.profiles import Profile, Section, parse
from linkhold.decide.bonding.steps import Run, WriteFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.bonding.steps import Step
    from linkhold.decide.bonding.wanted import Wanted

DEVICES = "/run/NetworkManager/devices"
LEASES = "/var/lib/NetworkManager"
FOLDER = "/etc/NetworkManager/system-connections"
HEAD = "Made by linkhold (bond apply); taken away by: linkhold bond remove {bond}"
PRIVATE = 0o600
FIRST = "999"
"""Autoconnect priority: the highest, so that no older profile of a member wins."""
STOP = Run(("systemctl", "stop", "NetworkManager"))
START = Run(("systemctl", "start", "NetworkManager"))
ADOPTS_WITHIN_S = 15.0
"""It adopts within a second of its start; half of a lease is longer, and so is the guard's time."""
READ_AGAIN = Run(("nmcli", "connection", "reload"))
"""Reads changed profiles; nothing active changes (docs/handover.md)."""
NAMESPACE = uuid.UUID("6f0a2b0e-6c69-4e6b-9c0d-6c696e6b686f")
FAIL_OVER_MACS = ("none", "active", "follow")


def take(bond: str, members: tuple[str, ...]) -> tuple[Step, ...]:
    """Return the steps after which NetworkManager leaves the NICs alone, running or not."""
    names = ";".join(f"interface-name:{name}" for name in (*members, bond))
    text = f"# {HEAD.format(bond=bond)}\n[keyfile]\nunmanaged-devices+={names}\n"
    return (WriteFile(aside_path(bond), text), STOP)


def aside_path(bond: str) -> str:
    """Return the file that keeps NetworkManager from NICs that move; a boot ends it."""
    return f"/run/NetworkManager/conf.d/90-linkhold-{bond}.conf"


def let_in(bond: str, files: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps by which NetworkManager starts anew and finds ``files``."""
    return (STOP, WriteFile(aside_path(bond), None), *files, START)


def adopted(bond: str) -> Run:
    """Return the step that fails unless NetworkManager took the bond's profile for its own.

    A device that it only calls "connected (externally)" has another connection, of that moment,
    and nobody who renews its lease.
    """
    return Run(
        ("nmcli", "-g", "GENERAL.CON-UUID", "device", "show", bond),
        timeout_s=ADOPTS_WITHIN_S,
        expect=identity(bond),
        purpose=f"check that {bond} has NetworkManager's profile (journalctl -u NetworkManager)",
    )


def give(
    wanted: Wanted, mac: str, source: str, metrics: Mapping[str, int], lease: str
) -> tuple[Step, ...]:
    """Return the steps after which NetworkManager owns the bond as it owned the live NIC.

    ``source`` is the text of the NIC's keyfile; empty where it had none. ``metrics`` are those of
    its default routes by family: a bond's would be another (300, Ethernet's is 100). ``lease`` is
    the text of its DHCP lease, with which NetworkManager asks for the same address.
    """
    files = profiles(wanted, mac, source, metrics)
    steps: list[Step] = [WriteFile(path, text, PRIVATE) for path, text in files.items()]
    if lease:
        path = f"{LEASES}/internal-{identity(wanted.name)}-{wanted.name}.lease"
        steps.append(WriteFile(path, lease, PRIVATE))
    steps.append(adopt(wanted.name, identity(wanted.name), owned=True))
    steps += [adopt(name, identity(wanted.name, name)) for name in wanted.members]
    return *let_in(wanted.name, tuple(steps)), adopted(wanted.name)


def adopt(name: str, connection: str, *, owned: bool = False) -> WriteFile:
    """Return the state file that makes NetworkManager take a device over as it stands.

    Without it the device is only "connected (externally)", and nobody renews a lease. It is
    looked up by interface index, so that it is written when the interface is there.
    """
    lines = ["[device]", "managed=true"]
    lines += [f"connection-uuid={connection}"] if connection else []
    lines += ["nm-owned=true"] if owned else []
    return WriteFile(state_path(name), "\n".join(lines) + "\n")


def state_path(name: str) -> str:
    """Return where NetworkManager keeps what it knows of an interface; the index is filled in."""
    return f"{DEVICES}/{{index:{name}}}"


def back(live: str, members: tuple[str, ...], connection: str) -> tuple[Step, ...]:
    """Return the files by which the live NIC is its old connection's when NetworkManager starts."""
    others = [adopt(name, "") for name in members if name != live]
    return (adopt(live, connection), *others)


def profiles(wanted: Wanted, mac: str, source: str, metrics: Mapping[str, int]) -> dict[str, str]:
    """Return the keyfiles of the bond and of its members: path -> text."""
    head = HEAD.format(bond=wanted.name)
    base = f"{FOLDER}/linkhold-{wanted.name}"
    files = {bond_profile(wanted.name): _of_bond(wanted, mac, source, metrics).text(head)}
    for name in wanted.members:
        files[f"{base}-{name}.nmconnection"] = _of_member(wanted, name).text(head)
    return files


def bond_profile(bond: str) -> str:
    """Return the keyfile of the bond."""
    return f"{FOLDER}/linkhold-{bond}.nmconnection"


def identity(bond: str, member: str = "") -> str:
    """Return the UUID of a profile: always the same for one bond and member."""
    return str(uuid.uuid5(NAMESPACE, f"{bond}/{member}"))


def _of_bond(wanted: Wanted, mac: str, source: str, metrics: Mapping[str, int]) -> Profile:
    old = parse(source)
    connection = Section(
        "connection",
        (
            f"id=linkhold-{wanted.name}",
            f"uuid={identity(wanted.name)}",
            "type=bond",
            f"interface-name={wanted.name}",
            "autoconnect=true",
            f"autoconnect-priority={FIRST}",
            # Without it a bond that somebody brings up by hand has no members, and stays down.
            "autoconnect-slaves=1",
            *([f"zone={zone}"] if (zone := old.first("connection").value("zone")) else []),
        ),
    )
    ethernet = [f"cloned-mac-address={mac}"] if mac else []
    ethernet += [f"mtu={wanted.settings.mtu_bytes}"] if wanted.settings.mtu_bytes else []
    kept = [
        _with_metric(one, metrics) for one in old.sections if one.name in {"ipv4", "ipv6", "proxy"}
    ]
    return Profile(
        (connection, Section("bond", _options(wanted)), Section("ethernet", tuple(ethernet)), *kept)
    )


def _with_metric(section: Section, metrics: Mapping[str, int]) -> Section:
    metric = metrics.get({"ipv4": "inet", "ipv6": "inet6"}.get(section.name, ""))
    if metric is None or section.value("route-metric"):
        return section
    return section.with_values(route_metric=str(metric))


def _options(wanted: Wanted) -> tuple[str, ...]:
    options = wanted.options
    return (
        "mode=active-backup",
        f"miimon={options['miimon']}",
        f"updelay={options['updelay']}",
        f"downdelay={options['downdelay']}",
        f"peer_notif_delay={options['peer_notif_delay']}",
        f"primary={wanted.primary}",
        "primary_reselect=failure",
        f"fail_over_mac={FAIL_OVER_MACS[wanted.fail_over_mac]}",
        f"num_grat_arp={options['num_peer_notif']}",
        f"resend_igmp={options['resend_igmp']}",
    )


def _of_member(wanted: Wanted, name: str) -> Profile:
    connection = Section(
        "connection",
        (
            f"id=linkhold-{wanted.name}-{name}",
            f"uuid={identity(wanted.name, name)}",
            "type=ethernet",
            f"interface-name={name}",
            f"master={wanted.name}",
            "slave-type=bond",
            "autoconnect=true",
            f"autoconnect-priority={FIRST}",
        ),
    )
    return Profile((connection, Section("ethernet")))
