"""How the NIC that carries is configured by its owner: what a bond's profile is made from.

Formats: systemd.network(5), the lease and link files of systemd 252 below /run/systemd/netif,
nm-settings-keyfile(5) and the lease files of NetworkManager 1.42.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.decide.bonding.handover import Holding, own_profile
from linkhold.model.survey import OwnerKind

if TYPE_CHECKING:
    from linkhold.model.survey import Owner

NETIF = Path("/run/systemd/netif")
NM_LEASES = Path("/var/lib/NetworkManager")
_CLIENT_ID = re.compile(r"ff([0-9a-f]{8})[0-9a-f]")
"""A client identifier of type 255: the IAID, then the DUID (RFC 4361)."""


def of(owner: Owner | None, index: int) -> Holding:
    """Return what is known of the interface ``index``; nothing where nobody native owns it."""
    if owner is None or not owner.native:
        return Holding()
    text, unread = _texts(owner)
    networkd = owner.kind is OwnerKind.NETWORKD
    return Holding(
        text=text,
        file=owner.profile_files[0] if owner.profile_files else "",
        connection=owner.connection_uuid,
        client=dhcp_client(index) if networkd else {},
        lease="" if networkd else _nm_lease(owner),
        in_use=networkd_files() if networkd else (),
        unread=unread,
    )


def own_text(bond: str, persist: str) -> str:
    """Return the profile that linkhold gave to a manager for a bond, empty where it has none.

    Without drop-ins: they stay where they are, those in /run of one boot's too. Whether the
    manager runs at the moment does not matter.
    """
    path = own_profile(bond, persist)
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _texts(owner: Owner) -> tuple[str, tuple[str, ...]]:
    """Return the text of a profile with its drop-ins, and why some of it could not be read.

    netplan's own YAML is only what that text was made from.
    """
    files = [Path(name) for name in owner.profile_files if not name.endswith((".yaml", ".yml"))]
    texts, unread = [], []
    for file in files:
        try:
            texts.append(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            unread.append(f"{file}, which configures {owner.name}, cannot be read: {error}")
    return "\n".join(texts), tuple(unread)


def dhcp_client(index: int, netif: Path = NETIF) -> dict[str, str]:
    """Return what keeps networkd's DHCPv4 identity when the lease moves to another interface.

    The IAID is made from the interface's name (sd-dhcp-client), so that a bond would be another
    client to the server. The lease file has the identity that was used: ff, IAID, DUID.
    """
    for key, value in _pairs(netif / "leases" / str(index)):
        if key == "CLIENTID" and (found := _CLIENT_ID.match(value.lower())):
            return {"IAID": str(int(found[1], 16))}
    return {}


def networkd_files(netif: Path = NETIF) -> tuple[str, ...]:
    """Return every .network file that networkd uses for some link now."""
    try:
        links = sorted((netif / "links").iterdir())
    except OSError:  # networkd does not run
        return ()
    pairs = (pair for link in links for pair in _pairs(link))
    return tuple(dict.fromkeys(value for key, value in pairs if key == "NETWORK_FILE"))


def _pairs(path: Path) -> list[tuple[str, str]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def _nm_lease(owner: Owner, folder: Path = NM_LEASES) -> str:
    path = folder / f"internal-{owner.connection_uuid}-{owner.name}.lease"
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):  # another DHCP plugin, or a fixed address
        return ""
