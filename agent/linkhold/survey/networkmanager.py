"""What NetworkManager says of an interface, from its own files (nm-settings-keyfile(5)).

``/run/NetworkManager/devices/<ifindex>`` (nm-config.c) is written when a device becomes active,
disconnected or unmanaged: ``managed=true``, and ``connection-uuid`` while a profile is active. A
device that NetworkManager only watches ("connected (externally)") has the same, but its profile is
one that it made up: a file in /run with ``external=true`` (or ``nm-generated`` and ``volatile``)
under ``[.nmmeta]``. Seen with 1.42. Profiles are 0600: without root they stay unknown.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from linkhold.model.survey import Owner, OwnerKind
from linkhold.survey.files import pairs, sections
from linkhold.survey.networkd import netplan_files

if TYPE_CHECKING:
    from linkhold.survey.files import Reader

COMM = "NetworkManager"
UNIT = "NetworkManager.service"
DEVICES = "/run/NetworkManager/devices"
PROFILE_FOLDERS = (
    "/etc/NetworkManager/system-connections",
    "/run/NetworkManager/system-connections",
    "/usr/lib/NetworkManager/system-connections",
)
IFCFG_FOLDER = "/etc/sysconfig/network-scripts"  # the ifcfg-rh plugin, until RHEL 9

Sections = dict[str, dict[str, list[str]]]


def owner(reader: Reader, name: str, index: int) -> Owner | None:
    """Return NetworkManager's claim to an interface, for a host where it runs; None for none."""
    path = f"{DEVICES}/{index}"
    text = reader.text(path)
    device = sections(text or "").get("device", {})
    if _one(device, "managed") != "true":
        return None
    uuid = _one(device, "connection-uuid")
    if not uuid:
        seen = f"{path}: managed=true, no profile active"
        return Owner(OwnerKind.NETWORK_MANAGER, name, evidence=(seen,), native=True)
    return _with_profile(reader, name, uuid, f"{path}: managed=true, connection-uuid={uuid}")


def _with_profile(reader: Reader, name: str, uuid: str, seen: str) -> Owner | None:
    before = len(reader.problems)
    file, profile = _find(reader, uuid)
    if _external(profile):
        return None
    generated = file.startswith("/run/") and PurePosixPath(file).name.startswith("netplan-")
    unread = tuple(reader.problems[before:])
    return Owner(
        OwnerKind.NETWORK_MANAGER,
        name,
        evidence=(seen, *([f"profile {file}"] if file else [])),
        profile_files=(*([file] if file else []), *(netplan_files(reader) if generated else ())),
        dhcp=_has_dhcp(profile) if file else None,
        native=True,
        netplan=generated,
        connection_uuid=uuid,
        unknown=() if file else (f"the profile {uuid} was not found", *unread),
    )


def _find(reader: Reader, uuid: str) -> tuple[str, Sections]:
    """Return path and content of the profile with this UUID; empty when there is none."""
    for folder in PROFILE_FOLDERS:
        for file in reader.files(folder):
            profile = sections(reader.text(file) or "")
            if _one(profile.get("connection", {}), "uuid") == uuid:
                return file, profile
    for file in reader.files(IFCFG_FOLDER):
        words = dict(pairs(reader.text(file) or ""))
        if PurePosixPath(file).name.startswith("ifcfg-") and words.get("UUID") == uuid:
            automatic = words.get("BOOTPROTO", "").lower() in {"dhcp", "bootp"}
            return file, {"ipv4": {"method": ["auto" if automatic else "manual"]}}
    return "", {}


def _external(profile: Sections) -> bool:
    meta = profile.get(".nmmeta", {})
    made_up = _one(meta, "nm-generated") == "true" and _one(meta, "volatile") == "true"
    return made_up or _one(meta, "external") == "true"


def _has_dhcp(profile: Sections) -> bool:
    """``auto`` is DHCP for IPv4; for IPv6 router advertisements, and DHCPv6 if they say so."""
    methods = {_one(profile.get("ipv4", {}), "method"), _one(profile.get("ipv6", {}), "method")}
    return bool(methods & {"auto", "dhcp"})


def _one(section: dict[str, list[str]], key: str) -> str:
    return (section.get(key) or [""])[-1]
