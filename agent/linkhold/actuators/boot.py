"""Early at boot: undo what a crash left unfinished, make again what no manager makes.

``python -m linkhold.actuators.boot``, run by linkhold-boot.service before any network manager.
Standard library only. What it prints goes to the journal.

A bond of two NICs can do no worse than one of them, so it stays even when nothing answers over
it: after a power cut the switches come back later than the node. Its NIC gets the addresses back
only where the gateway is seen to answer over the NIC alone.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators import reflex
from linkhold.actuators.checks import failures
from linkhold.actuators.journal import LOOKS_S, Journal, boot_id
from linkhold.actuators.perform import perform
from linkhold.actuators.remake import heir, spared
from linkhold.actuators.undo import undo
from linkhold.model import LinkholdError
from linkhold.model.survey import Known
from linkhold.rtnl.exchange import Exchange
from linkhold.survey import snapshot
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from linkhold.actuators.journal import Document

NOTICE, ERROR = "<5>", "<3>"
"""Priority prefixes that systemd takes from a service's lines (sd-daemon(3))."""

MEMBERS_S = 20.0
"""How long drivers may take until all NICs are there."""
PATIENCE_S = 40.0
"""How long a fresh bond's gateway may take to answer: a port's spanning tree holds it for 30 s."""
TURN_S = 5.0
"""While nothing answers, each good member is the active one for so long, in turn."""
ALONE_S = 35.0
"""How long the NIC alone is tried then: it went down and up, so a spanning tree starts anew."""
ASK_S = 1.0
PAUSE_S = 0.2
UDEV = Path("/run/udev")


def main() -> int:
    """Do it; return 0 when everything worked or there was nothing to do, else 1."""
    try:
        problems = at_boot(Journal(), lambda text: print(f"{NOTICE}linkhold: {text}", flush=True))
    except (LinkholdError, OSError) as error:
        problems = [str(error)]
    for problem in problems:
        print(f"{ERROR}linkhold: {problem}", flush=True)
    return 1 if problems else 0


def at_boot(journal: Journal, tell: Callable[[str], None]) -> list[str]:
    """Undo what a crash left unfinished, then make every bond that no manager makes by itself.

    Returns what went wrong, in words. Trouble with one bond, one damaged file, or a disk that
    takes no more, does not keep the others from being made.
    """
    problems: list[str] = []
    try:
        if not journal.hold(wait_s=LOOKS_S):
            return ["a change of the network is at work: nothing is done"]
        problems += _undo_unfinished(journal, tell)
    except Exception as error:  # noqa: BLE001 - nothing needs to be written to make a bond
        problems.append(str(error) or repr(error))
    try:
        return [*problems, *_make_all(journal, tell)]
    finally:
        journal.release()


def _make_all(journal: Journal, tell: Callable[[str], None]) -> list[str]:
    problems: list[str] = []
    there = {link.name for link in snapshot.take().links}
    bonds = [
        Bond(name, record, tell)
        for name, record in journal.committed(problems).items()
        if record.get("persist") == "linkhold" and name not in there
    ]
    end = time.monotonic() + MEMBERS_S
    _each(bonds, lambda bond: bond.make(end))
    end = time.monotonic() + PATIENCE_S
    _each(bonds, lambda bond: bond.settle(end))
    return [*problems, *(problem for bond in bonds for problem in bond.problems)]


def _each(bonds: Iterable[Bond], act: Callable[[Bond], None]) -> None:
    for bond in bonds:
        try:
            act(bond)
        except Exception as error:  # noqa: BLE001 - the other bonds must be made, come what may
            bond.problems.append(f"{bond.name}: {error!r}")


def _undo_unfinished(journal: Journal, tell: Callable[[str], None]) -> list[str]:
    try:
        found = journal.read()
        if found is None or found["boot_id"] == boot_id():
            return []
        tell(f"undoing a change of {found['bond']} that a crash left unfinished")
        return undo(journal, "the machine went down before it was committed")
    except Exception as error:  # noqa: BLE001 - bonds that were committed are made all the same
        return [f"an unfinished change was not undone: {error!r}"]


class Bond:
    """One bond that is made again. ``problems`` is what went wrong, in words."""

    def __init__(self, name: str, record: Document, tell: Callable[[str], None]) -> None:
        self.name = name
        self.problems: list[str] = []
        self._record = record
        self._tell = tell
        self._made = False

    def make(self, end: float) -> None:
        """Make it, of the members that are there until ``end``."""
        names = _await_members(self._record, end)
        for old, new in names.items():
            if old != new:
                self._tell(f"{old} is called {new} now (found by its permanent MAC)")
        absent = [name for name in self._record["members"] if name not in names]
        if absent:
            self._tell(f"{', '.join(absent)} is not there: {self.name} is made without it")
        if not names:
            self.problems.append(f"none of the members of {self.name} is there: it is not made")
            return
        # Without the absent ones first: another NIC may have got such a name.
        record = spared(self._record, absent)
        self._record = json.loads(renamed(json.dumps(record), names))
        self._perform(self._record["remake"])
        self._made = True

    def settle(self, end: float) -> None:
        """Wait until its gateway answers, over one member or another; at ``end`` decide."""
        if not self._made:
            return
        if not self._ports() or not self._has_addresses():
            self._tell(f"{self.name} could not be made: giving the NIC back")
            self._perform(self._record["give_back"])
            return
        turn_ends = time.monotonic() + TURN_S
        while bad := self._unreachable():
            now = time.monotonic()
            if now > end:
                self._last_resort(bad)
                return
            if now > turn_ends:
                self._activate_next()
                turn_ends = now + TURN_S
            time.sleep(PAUSE_S)
        asked = any(targets for _, targets in self._record["checks"]["answers"])
        self._tell(f"{self.name} is there{' and its gateway answers' if asked else ''}")

    def _last_resort(self, bad: list[str]) -> None:
        """Nothing answers over the bond: see whether the NIC alone does better.

        That is seldom: where a switch takes no other MAC than that NIC's, say.
        """
        self.problems += bad
        alone = heir(self._record)
        if not self._ports().get(alone):
            self._tell(f"{self.name} carries nothing and no link of {alone} is there: it stays")
            return
        self._tell(f"{self.name} carries nothing ({'; '.join(bad)}): trying {alone} alone")
        self._perform(self._record["give_back"])
        end = time.monotonic() + ALONE_S
        while time.monotonic() < end:
            if self._answers_over(alone):
                self._tell(f"the gateway answers over {alone} alone: giving the NIC back")
                return
            time.sleep(PAUSE_S)
        self._tell(
            f"nothing answers over {alone} alone either: {self.name} is made again and stays"
        )
        self._perform(self._record["remake"])

    def _unreachable(self) -> list[str]:
        """Return which targets do not answer. A missing member is no reason to give up."""
        checks = {**self._record["checks"], "bonds": {}, "members": {}, "pings": ()}
        return failures(checks)

    def _answers_over(self, nic: str) -> bool:
        asked = [targets for _, targets in self._record["checks"]["answers"] if targets]
        return any(ask(nic, tuple(one), timeout_s=ASK_S).verdict is Known.YES for one in asked)

    def _ports(self) -> dict[str, bool]:
        """Return its members, and of each whether it has a link."""
        look = snapshot.take()
        bond = look.link(self.name)
        ports = look.ports_of(bond.index) if bond is not None else ()
        return {port.name: port.carrier for port in ports}

    def _has_addresses(self) -> bool:
        look = snapshot.take()
        bond = look.link(self.name)
        own = {one.address for one in look.addresses_of(bond.index)} if bond is not None else set()
        known = set(self._record.get("addresses", ()))
        return not known or bool(known & own)

    def _activate_next(self) -> None:
        """Let the next good member carry; which one does is decided by nobody else so early."""
        look = snapshot.take()
        bond = look.link(self.name)
        if bond is None or bond.bond is None:
            return
        now = bond.bond.get("active_slave")
        good = [port.index for port in look.ports_of(bond.index) if port.usable]
        chosen = good[(good.index(now) + 1) % len(good) if now in good else 0] if good else now
        if isinstance(chosen, int) and chosen != now:
            with Exchange() as kernel:  # what the kernel says against it changes nothing
                kernel.change([reflex.request(bond.index, chosen)])

    def _perform(self, steps: list[Document]) -> None:
        for step in steps:
            try:
                perform(step)
            except Exception as error:  # noqa: BLE001 - the other steps must be made
                self.problems.append(str(error) or repr(error))


def _await_members(record: Mapping[str, Any], end: float) -> dict[str, str]:
    """Wait until every member is there, for a while, and return the names they have now.

    A NIC may be called otherwise after a boot (another slot, another kernel); its permanent MAC
    stays. One that does not come is missing from the answer.
    """
    while True:
        late = time.monotonic() > end
        found = _names_now(record, settled=not late)
        if len(found) == len(record["members"]) or late:
            return found
        time.sleep(PAUSE_S)


def _names_now(record: Mapping[str, Any], *, settled: bool) -> dict[str, str]:
    """Return the members that are there; with ``settled`` those only that udev is done with."""
    done = _done_by_udev() if settled else None  # before the look: it may rename meanwhile
    found_links = snapshot.take().links
    links = {link.name: link for link in found_links if done is None or link.index in done}
    by_mac = {link.perm_mac: link.name for link in links.values() if link.perm_mac}
    found = {}
    for name in record["members"]:
        mac = record.get("originals", {}).get(name, {}).get("perm_mac", "")
        here = links.get(name)
        if mac and (here is None or here.perm_mac != mac):
            if mac in by_mac:
                found[name] = by_mac[mac]
        elif here is not None:
            found[name] = name
    return found


def _done_by_udev() -> set[int] | None:
    """Return the indexes of the NICs that have their final names; None where no udev runs.

    udev writes ``data/n<ifindex>`` when it has renamed an interface, or would not.
    """
    if not UDEV.is_dir():
        return None
    names = (path.name[1:] for path in UDEV.glob("data/n*"))
    return {int(name) for name in names if name.isdigit()}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a record's text with interfaces called by the names that they have now. Pure.

    Names stand in JSON as whole strings: in holes, and as members, links and keys.
    """
    pattern = "|".join(re.escape(json.dumps(name)) for name in names if names[name] != name)
    if not pattern:
        return text
    return re.sub(pattern, lambda found: json.dumps(names[json.loads(found[0])]), text)


if __name__ == "__main__":
    sys.exit(main())
