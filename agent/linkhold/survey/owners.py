"""Who configures each interface: every program that may is asked, the strongest claim wins.

Whether a program runs is read from /proc; no systemctl, no D-Bus. A manager that is enabled and
does not run now makes ``nobody`` an ``unknown``: it would come back at the next boot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.model.survey import Owner, OwnerKind
from linkhold.survey import clients, networkd, networkmanager
from linkhold.survey.ifupdown import Configured
from linkhold.survey.processes import COMM_BYTES, Process, running

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.survey.files import Reader

WANTS = (
    "/etc/systemd/system/multi-user.target.wants",
    "/etc/systemd/system/network-online.target.wants",
    "/etc/systemd/system/sysinit.target.wants",
)
# A client that one of these started works for it and is no claim of its own.
EMPLOYERS = frozenset({OwnerKind.IFUPDOWN, OwnerKind.IFUPDOWN2, OwnerKind.NETWORK_MANAGER})
CLIENTS = frozenset({OwnerKind.DHCLIENT, OwnerKind.DHCPCD})
LEGACY = "/etc/rc.d/init.d/network"  # RHEL's network-scripts
MANAGERS = {
    networkd.COMM: OwnerKind.NETWORKD,
    networkmanager.COMM: OwnerKind.NETWORK_MANAGER,
    "dhcpcd": OwnerKind.DHCPCD,
    "wickedd": OwnerKind.WICKED,
    "connmand": OwnerKind.CONNMAN,
}


class Owners:
    """Answers for one host at one instant; programs and ifupdown's files are read once."""

    def __init__(self, reader: Reader, dhcp_routes: frozenset[int] | None = None) -> None:
        """``dhcp_routes`` are interfaces with routes of a lease; None when that is unknown."""
        self._reader = reader
        self._dhcp_routes = dhcp_routes
        before = len(reader.problems)
        daemons = frozenset({networkd.COMM, networkmanager.COMM})
        self.programs = running(reader, daemons | clients.COMMS)
        self._configured = Configured(reader)
        self._idle = _enabled_but_idle(reader, self.programs)
        self._problems = tuple(reader.problems[before:])

    @property
    def managers(self) -> tuple[OwnerKind, ...]:
        """The network managers that run here, whatever they own."""
        comms = {program.comm for program in self.programs}
        return tuple(kind for name, kind in MANAGERS.items() if name[:COMM_BYTES] in comms)

    def of(self, name: str, index: int) -> Owner:
        """Return who configures the interface ``name`` with this index."""
        before = len(self._reader.problems)
        claims = [claim for claim in self._claims(name, index) if claim is not None]
        problems = (*self._problems, *self._reader.problems[before:])
        if not claims:
            return self._no_owner(name, index, problems)
        first = _merged(claims)
        dhcp = first.dhcp or (True if self._has_lease(index) else first.dhcp)
        return replace(first, dhcp=dhcp, unknown=tuple(dict.fromkeys(first.unknown + problems)))

    def _claims(self, name: str, index: int) -> Iterable[Owner | None]:
        """Yield claims, the strongest first: a manager that acts now, files, a bare client."""
        managers, reader = self.managers, self._reader
        manager = None
        if OwnerKind.NETWORK_MANAGER in managers:
            manager = networkmanager.owner(reader, name, index)
        if manager is not None and manager.connection_uuid:
            yield manager
        if OwnerKind.NETWORKD in managers:
            yield networkd.owner(reader, name, index)
        yield self._configured.owner(name)
        yield clients.wicked(reader, self.programs, name)
        yield clients.dhcpcd(reader, self.programs, name)
        yield clients.connman(reader, self.programs, name)
        yield clients.dhclient(self.programs, name)
        if manager is not None and not manager.connection_uuid:
            yield manager

    def _no_owner(self, name: str, index: int, problems: tuple[str, ...]) -> Owner:
        leased = self._has_lease(index)
        doubts = (*self._idle, *problems, *_legacy(self._reader, name))
        if leased:
            doubts = (*doubts, "it has routes of a DHCP lease, and no program owns up to it")
        kind = OwnerKind.UNKNOWN if doubts else OwnerKind.NOBODY
        dhcp = leased if leased or not doubts else None
        return Owner(kind, name, evidence=("no program claims it",), dhcp=dhcp, unknown=doubts)

    def _has_lease(self, index: int) -> bool | None:
        return None if self._dhcp_routes is None else index in self._dhcp_routes


def look(
    reader: Reader, interfaces: Mapping[str, int], dhcp_routes: frozenset[int] | None = None
) -> tuple[Owner, ...]:
    """Return who configures each of ``interfaces`` (name -> index), in their order."""
    owners = Owners(reader, dhcp_routes)
    return tuple(owners.of(name, index) for name, index in interfaces.items())


def _merged(claims: list[Owner]) -> Owner:
    """Return the first claim with the others named as contenders; helpers lend it their pids."""
    first, others = claims[0], claims[1:]
    helpers = [c for c in others if c.kind in CLIENTS and first.kind in EMPLOYERS]
    rivals = [c for c in others if c not in helpers]
    return replace(
        first,
        evidence=first.evidence + tuple(line for c in others for line in c.evidence),
        dhcp=True if helpers else first.dhcp,
        pids=first.pids + tuple(pid for c in helpers for pid in c.pids),
        contenders=tuple(dict.fromkeys(c.kind for c in rivals if c.kind != first.kind)),
        unknown=first.unknown + tuple(reason for c in others for reason in c.unknown),
    )


def _enabled_but_idle(reader: Reader, programs: tuple[Process, ...]) -> tuple[str, ...]:
    comms = {program.comm for program in programs}
    units = ((networkd.COMM, networkd.UNIT), (networkmanager.COMM, networkmanager.UNIT))
    return tuple(
        f"{unit} is enabled but does not run now"
        for comm, unit in units
        if comm[:COMM_BYTES] not in comms and any(reader.exists(f"{w}/{unit}") for w in WANTS)
    )


def _legacy(reader: Reader, name: str) -> tuple[str, ...]:
    file = f"{networkmanager.IFCFG_FOLDER}/ifcfg-{name}"
    if reader.exists(LEGACY) and reader.exists(file):
        return (f"{file} may be used by the old network scripts",)
    return ()
