"""Bonds that are kept as the configuration wants them: what differs, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Drift:
    """One way in which a bond is not as wanted.

    ``kind`` is a word of :mod:`linkhold.decide.keeping.drift`; ``subject`` the bond, a member or
    an option. ``wanted`` and ``seen`` are both values in words. ``obstacle`` says why linkhold
    does not mend it, or what a person should do; empty when it can be repaired.
    """

    kind: str
    subject: str
    wanted: str
    seen: str
    text: str
    obstacle: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same drift from look to look."""
        return (self.kind, self.subject)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Somebody keeps undoing repairs, so none is made any more.

    ``by`` is who does, where that is known; ``what`` was undone. ``since_ns`` and ``until_ns``
    are CLOCK_MONOTONIC.
    """

    what: str
    by: str
    since_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class BondKeep:
    """One entry of ``bonds:`` on this host.

    ``applied``: it stands as an active-backup bond, or was committed here; only then is there
    drift. ``members`` is how many it should have. ``repair`` says in words what is done about it:
    ``running``, ``observe only``, why it waits; empty for nothing.
    """

    bond: str
    applied: bool
    members: int = 0
    drift: tuple[Drift, ...] = ()
    conflict: Conflict | None = None
    repair: str = ""
