"""What systemd-networkd says of an interface (networkd-state-file.c, systemd.network(5)).

``/run/systemd/netif/links/<ifindex>`` calls itself private data, but is what sd-network(3) and
``networkctl`` without D-Bus read; its keys are the same since systemd 209. A link that no
.network file matches, or one with ``Unmanaged=yes``, has ADMIN_STATE ``unmanaged``.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from linkhold.model.survey import Owner, OwnerKind
from linkhold.survey.files import pairs, sections

if TYPE_CHECKING:
    from linkhold.survey.files import Reader

COMM = "systemd-networkd"
UNIT = "systemd-networkd.service"
NETIF = "/run/systemd/netif"
FOLDERS = ("/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network")
NETPLAN_FOLDERS = ("/etc/netplan", "/run/netplan", "/lib/netplan")
NO_DHCP = frozenset({"no", "false", "off", "0", "none", "n", "f"})


def owner(reader: Reader, name: str, index: int) -> Owner | None:
    """Return networkd's claim to an interface, for a host where networkd runs; None for none."""
    path = f"{NETIF}/links/{index}"
    text = reader.text(path)
    if text is None:
        return None
    state = dict(pairs(text))
    admin, profile = state.get("ADMIN_STATE", ""), state.get("NETWORK_FILE", "")
    if admin == "unmanaged" or (not profile and admin not in {"pending", "initialized"}):
        return None
    if not profile:
        return Owner(OwnerKind.UNKNOWN, name, unknown=(f"networkd has not decided yet ({admin})",))
    generated = PurePosixPath(profile).name.startswith(("10-netplan-", "netplan-"))
    files = (profile, *_drop_ins(reader, profile), *(netplan_files(reader) if generated else ()))
    return Owner(
        OwnerKind.NETWORKD,
        name,
        evidence=(f"{path}: ADMIN_STATE={admin}, NETWORK_FILE={profile}",),
        profile_files=files,
        dhcp=_has_dhcp(reader, files, index),
        native=True,
        netplan=generated,
    )


def netplan_files(reader: Reader) -> tuple[str, ...]:
    """Return netplan's own files, from which it generates profiles."""
    return tuple(file for folder in NETPLAN_FOLDERS for file in reader.files(folder, ".yaml"))


def _drop_ins(reader: Reader, profile: str) -> tuple[str, ...]:
    """A drop-in is read from all three folders; of one name, the first folder's counts."""
    by_name: dict[str, str] = {}
    base = PurePosixPath(profile).name
    for folder in FOLDERS:
        for file in reader.files(f"{folder}/{base}.d", ".conf"):
            by_name.setdefault(PurePosixPath(file).name, file)
    return tuple(by_name[name] for name in sorted(by_name))


def _has_dhcp(reader: Reader, files: tuple[str, ...], index: int) -> bool | None:
    """The lease file is DHCPv4's; DHCPv6 and a lease still awaited show in ``DHCP=`` alone."""
    if reader.exists(f"{NETIF}/leases/{index}"):
        return True
    word, read = "", False
    for file in files:
        text = None if file.endswith(".yaml") else reader.text(file)
        if text is not None:
            read = True
            word = (sections(text).get("Network", {}).get("DHCP") or [word])[-1]
    return (bool(word) and word.lower() not in NO_DHCP) if read else None
