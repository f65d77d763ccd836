"""The words in which a change of the host's network is planned, printed and undone. Pure.

A plan is a list of phases, a phase a list of steps. :mod:`linkhold.actuators.compile` turns
steps into what :mod:`linkhold.actuators.perform` executes: messages for the kernel, with names in
the place of interface indexes.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from linkhold.decide.bonding import wording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.rtnl.retarget import Template

THERE_ALREADY = (errno.EEXIST,)
GONE_ALREADY = (errno.ENODEV, errno.ENOENT, errno.ESRCH, errno.EADDRNOTAVAIL)


@dataclass(frozen=True, slots=True)
class SetLink:
    """One RTM_NEWLINK for an existing interface: None and 0 leave as it is.

    ``master`` names the bond to join, or is empty to leave the present one. With ``up`` False
    and a master in one message the kernel closes the NIC first (do_setlink), as it must be.
    """

    name: str
    up: bool | None = None
    master: str | None = None
    mtu: int = 0
    mac: str = ""
    token: str = ""
    fine: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """What it does, for people."""
        parts = [f"MTU {self.mtu}"] if self.mtu else []
        parts += [f"MAC {self.mac}"] if self.mac else []
        parts += [f"IPv6 token {self.token}"] if self.token else []
        parts += ["down"] if self.up is False else []
        if self.master is not None:
            parts.append(f"into {self.master}" if self.master else "out of its bond")
        parts += ["up"] if self.up else []
        return f"set {self.name} {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class SetBond:
    """Create a bond (``create``), or set options of one that exists.

    ``options`` are those of :data:`linkhold.rtnl.bond.OPTIONS`; ``primary`` and ``active_slave``
    hold interface names, empty for none.
    """

    name: str
    options: Mapping[str, object]
    create: bool = False
    mac: str = ""
    mtu: int = 0
    fine: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """What it does, for people."""
        shown = ", ".join(f"{key} {wording.of(key, value)}" for key, value in self.options.items())
        if not self.create:
            return f"set {self.name}: {shown}"
        own = [f"MAC {self.mac}"] if self.mac else []
        own += [f"MTU {self.mtu}"] if self.mtu else []
        return f"create bond {self.name}: {', '.join([shown, *own])}"


@dataclass(frozen=True, slots=True)
class DropLink:
    """Remove a bond; its members stay behind, set down (bond_release)."""

    name: str
    fine: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """What it does, for people."""
        return f"remove {self.name}"


@dataclass(frozen=True, slots=True)
class SendObject:
    """Put or drop one address, route, rule, neighbour or nexthop.

    ``kind`` is the RTM_ type and ``flags`` the NLM_F_ flags beside REQUEST and ACK.
    """

    text: str
    kind: int
    template: Template
    flags: int = 0
    fine: tuple[int, ...] = ()


Change: TypeAlias = SetLink | SetBond | DropLink | SendObject


@dataclass(frozen=True, slots=True)
class Burst:
    """Changes that go to the kernel in one system call, in order, with nothing in between."""

    changes: tuple[Change, ...]

    @property
    def text(self) -> str:
        """What it does, for people."""
        return "; ".join(change.text for change in self.changes)


@dataclass(frozen=True, slots=True)
class SetSysctls:
    """Write sysctls; ``values`` is by path below /proc/sys. One that is absent is passed over.

    Equal values are not written.
    """

    values: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until members of a bond are used by it, or (no bond) links have carrier.

    ``optional``: time running out is no error, so that an undo goes on.
    """

    links: tuple[str, ...]
    bond: str = ""
    timeout_s: float = 12.0
    optional: bool = False

    @property
    def text(self) -> str:
        """What it does, for people."""
        state = f"good in {self.bond}" if self.bond else "up with carrier"
        return f"wait until {', '.join(self.links)} is {state} (at most {self.timeout_s:g} s)"


@dataclass(frozen=True, slots=True)
class Worth:
    """End an undo, for now, while ``bond`` carries and ``link`` has no carrier."""

    link: str
    bond: str

    @property
    def text(self) -> str:
        """What it does, for people."""
        return f"not while {self.link} has no link and {self.bond} carries"


@dataclass(frozen=True, slots=True)
class AskPath:
    """Ask ``targets`` by ARP or ND through one NIC, with its own MAC, without an address.

    One that answers is enough.
    """

    link: str
    targets: tuple[str, ...]

    @property
    def text(self) -> str:
        """What it does, for people."""
        return f"ask {', '.join(self.targets)} through {self.link}"


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell neighbours by gratuitous ARP and unsolicited NA who has ``addresses``."""

    link: str
    addresses: tuple[str, ...]

    @property
    def text(self) -> str:
        """What it does, for people."""
        return f"announce {', '.join(self.addresses)} on {self.link}"


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Stop unless ``link`` still has exactly these addresses and routes.

    ``digest`` is of :func:`linkhold.decide.bonding.objects.fingerprint`.
    """

    link: str
    digest: str

    @property
    def text(self) -> str:
        """What it does, for people."""
        return f"check that nobody else changed {self.link} meanwhile"


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file, or (``content`` None) remove it. What was there is in the journal."""

    path: str
    content: str | None
    mode: int = 0o644

    @property
    def text(self) -> str:
        """What it does, for people."""
        return f"remove {self.path}" if self.content is None else f"write {self.path}"


@dataclass(frozen=True, slots=True)
class RestoreFile:
    """Give a file the content that it had when the change began, or remove it if it was absent.

    The journal keeps that content; this step is filled in with it before anything is changed.
    """

    path: str

    @property
    def text(self) -> str:
        """What it does, for people."""
        return f"restore {self.path}"


@dataclass(frozen=True, slots=True)
class Run:
    """Run a program of the host, such as ``systemctl restart systemd-networkd``.

    ``optional``: another exit code than 0 is no error, so that an undo goes on. With ``expect`` it
    is run again until the last line that it prints is that, at most for ``timeout_s``. ``purpose``
    is for people, where the command does not speak for itself.
    """

    argv: tuple[str, ...]
    timeout_s: float = 30.0
    optional: bool = False
    expect: str = ""
    purpose: str = ""

    @property
    def text(self) -> str:
        """What it does, for people."""
        return self.purpose or f"run {' '.join(self.argv)}"


Step: TypeAlias = (
    Burst
    | SetSysctls
    | Await
    | Worth
    | AskPath
    | Announce
    | Unchanged
    | WriteFile
    | RestoreFile
    | Run
)


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps with one purpose. Progress is written to the journal before each phase.

    ``confirmed`` phases (persistence) run only when the change is confirmed.
    """

    title: str
    steps: tuple[Step, ...]
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Undo:
    """One step of the way back; it is needed only if phase number ``since`` was begun."""

    step: Step
    since: int = 0


@dataclass(frozen=True, slots=True)
class Checks:
    """What must hold after the change, and go on to hold until it is confirmed.

    ``answers``: (interface, targets): at least one target answers over it, for each entry.
    ``pings``: hosts that answered before the change, and must answer after.
    ``bonds``: options that a bond must have, read back from the kernel; ``members`` those that
    are in it and good.
    """

    answers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    pings: tuple[str, ...] = ()
    bonds: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a plan is not carried out, and what to do about it."""

    subject: str
    reason: str
    remedy: str

    @property
    def text(self) -> str:
        """The whole of it, for people."""
        return f"{self.subject}: {self.reason}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A change of the host from beginning to end, or the reasons why it will not be made.

    ``remake`` makes the bond again from nothing after it was committed, and ``give_back`` takes
    it away where it does not work; ``volatile`` writes what a running agent keeps in /run.
    ``interruption`` says in words what traffic will notice. ``unverified`` says why nothing on the
    wire can show whether it works, so that a person has to confirm it; empty where something can.
    No phases and no refusals: the host is as wanted.
    """

    bond: str
    action: str
    phases: tuple[Phase, ...] = ()
    undo: tuple[Undo, ...] = ()
    checks: Checks = Checks()
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    interruption: str = ""
    unverified: str = ""
    confirm_after_s: float = 10.0
    guard_s: float = 60.0
    remake: tuple[Step, ...] = ()
    give_back: tuple[Step, ...] = ()
    volatile: tuple[Step, ...] = ()
    record: Mapping[str, object] = field(default_factory=dict)
