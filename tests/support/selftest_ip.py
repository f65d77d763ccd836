"""An ``ip`` for the kernel's own selftests whose active-backup bonds are made by linkhold.

It stands first on PATH. What makes, changes or removes a bond, or joins a NIC to one, goes to
this process and from here to the kernel as linkhold sends it: SetBond, SetLink and DropLink,
compiled and performed in the namespace of the caller. Everything else is the real ip's.
"""

from __future__ import annotations

import os
import shutil
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.actuators.compile import step_document
from linkhold.actuators.link_messages import BY_INDEX
from linkhold.actuators.perform import perform
from linkhold.config.settings import BondSettings
from linkhold.decide.bonding import wording
from linkhold.decide.bonding.readback import differing, named
from linkhold.decide.bonding.steps import Burst, DropLink, SetBond, SetLink
from linkhold.decide.bonding.wanted import Wanted
from linkhold.model import HostError
from linkhold.rtnl.bond import MODE_ACTIVE_BACKUP, OPTIONS
from linkhold.survey import snapshot
from support.lab import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

    from linkhold.decide.bonding.steps import Change

# The shell decides by itself what is not ours, so that this costs the scripts no time.
IP = """\
#!/bin/sh
case " $* " in
*" type bond "* | *" master bond"* | *" nomaster "* | *" link del bond"*)
    mkfifo '{folder}'/$$
    printf '%s\\n' "$@" >'{folder}'/$$.words
    echo $$ >'{folder}'/asked
    {{ read -r code; cat >&2; }} <'{folder}'/$$
    rm '{folder}'/$$ '{folder}'/$$.words
    [ "$code" = pass ] || exit "$code"
    ;;
esac
exec {real} "$@"
"""
# Some scripts unload bonding at their end, which belongs to the scenarios after them as well.
MODPROBE = "#!/bin/sh\nexit 0\n"

SPELLED = {
    "peer_notify_delay": "peer_notif_delay",
    "num_grat_arp": "num_peer_notif",
    "num_unsol_na": "num_peer_notif",
    "arp_missed_max": "missed_max",
}
"""Options that iproute2 calls otherwise than the kernel's header does."""
VALUES = {
    **wording.WORDS,
    "arp_validate": (
        *("none", "active", "backup", "all"),
        *("filter", "filter_active", "filter_backup"),
    ),
    "arp_all_targets": ("any", "all"),
}
MII_OPTIONS = frozenset({"miimon", "updelay", "downdelay", "peer_notif_delay"})
PASS, REFUSED, BROKEN = "pass", "2", "70"


class NotOurs(Exception):
    """Words that are left to the real ip."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call of ip asks for, in linkhold's words; ``namespace`` is empty for the caller's."""

    namespace: str
    changes: tuple[Change, ...]


def understood(words: Sequence[str]) -> Asked:
    """Return what ``ip WORDS`` asks of linkhold, or raise :class:`NotOurs`."""
    namespace = ""
    if words[:1] in (["-n"], ["-netns"]):
        namespace, words = words[1], words[2:]
    if words[:1] != ["link"]:
        raise NotOurs
    act = {"add": _added, "set": _set, "del": _deleted}.get(words[1])
    if act is None:
        raise NotOurs
    return Asked(namespace, act(words[2:]))


@dataclass
class _Link:
    """The words of one ``ip link add`` or ``ip link set``."""

    name: str = ""
    up: bool | None = None
    master: str | None = None
    options: dict[str, object] | None = None


def _added(words: Sequence[str]) -> tuple[Change, ...]:
    link = _link(words)
    asked = link.options or {}
    if asked.get("mode") != MODE_ACTIVE_BACKUP or link.master is not None:
        raise NotOurs
    made = SetBond(link.name, {**_own(link.name, asked), **asked}, create=True)
    return (made, SetLink(link.name, up=True)) if link.up else (made,)


def _own(name: str, asked: dict[str, object]) -> dict[str, object]:
    """Return the options that linkhold gives each bond, without those of a monitor not asked."""
    own = Wanted(name, BondSettings(), (), "", 0).options
    arp = "arp_interval" in asked
    return {key: value for key, value in own.items() if not (arp and key in MII_OPTIONS)}


def _set(words: Sequence[str]) -> tuple[Change, ...]:
    link = _link(words)
    changes: list[Change] = []
    if link.options:
        if link.options.get("mode", MODE_ACTIVE_BACKUP) != MODE_ACTIVE_BACKUP:
            raise NotOurs
        changes.append(SetBond(link.name, link.options))
    if link.up is not None or link.master is not None:
        changes.append(SetLink(link.name, up=link.up, master=link.master))
    if not changes:
        raise NotOurs
    return tuple(changes)


def _deleted(words: Sequence[str]) -> tuple[Change, ...]:
    name = words[-1]
    if words not in ([name], ["dev", name]):
        raise NotOurs
    return (DropLink(name),)


def _link(words: Sequence[str]) -> _Link:
    link = _Link()
    rest = iter(words)
    for word in rest:
        if word in {"dev", "name"}:
            link.name = next(rest, "")
        elif word in {"up", "down"}:
            link.up = word == "up"
        elif word in {"master", "nomaster"}:
            link.master = next(rest, "") if word == "master" else ""
        elif word == "type" and next(rest, "") == "bond":
            link.options = _options(list(rest))
        elif link.name or word == "type":
            raise NotOurs
        else:
            link.name = word
    return link


def _options(words: list[str]) -> dict[str, object]:
    found = {}
    for word, text in zip(words[::2], words[1::2], strict=True):
        name = SPELLED.get(word, word)
        if name not in OPTIONS:
            raise NotOurs
        found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> object:
    if name in BY_INDEX:
        return text
    if OPTIONS[name][1] in {"ip4s", "ip6s"}:
        return tuple(text.split(",")) if text else ()
    words = VALUES.get(name, ())
    if text in words:
        return words.index(text)
    if not text.isdigit():
        raise NotOurs
    return int(text)


class SelftestIp:
    """The ``ip`` in ``folder`` and the thread that serves it. Use it as a context manager.

    ``path`` is PATH with it in front.
    ``done`` and ``refused`` tell what linkhold sent; ``wrong`` what it read back otherwise.
    """

    def __init__(self, folder: Path) -> None:
        real = shutil.which("ip")
        self.done: list[str] = []
        self.refused: list[str] = []
        self.wrong: list[str] = []
        self.path = f"{folder}:{os.environ['PATH']}"
        self._folder = folder
        self._asked = folder / "asked"
        os.mkfifo(self._asked)
        for name, text in (("ip", IP.format(folder=folder, real=real)), ("modprobe", MODPROBE)):
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755)
        # For writing too, so that there is no end of file between two callers.
        self._calls = os.open(self._asked, os.O_RDWR | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        os.write(self._calls, b"\n")
        self._thread.join()
        os.close(self._calls)

    def _serve(self) -> None:
        with open(self._calls, encoding="ascii", closefd=False) as calls:
            while caller := calls.readline().strip():
                words = (self._folder / f"{caller}.words").read_text(encoding="utf-8")
                code, text = self._answer(caller, words.splitlines())
                (self._folder / caller).write_text(f"{code}\n{text}", encoding="utf-8")

    def _answer(self, caller: str, words: list[str]) -> tuple[str, str]:
        try:
            asked = understood(words)
            place = f"/run/netns/{asked.namespace}" if asked.namespace else f"/proc/{caller}/ns/net"
            with kernel.inside(place):
                for change in asked.changes:
                    self._perform(change)
        except NotOurs:
            return PASS, ""
        except HostError as error:
            self.refused.append(str(error))
            return REFUSED, f"linkhold: {error}\n"
        except Exception:  # noqa: BLE001 - the script must not wait for ever
            self.wrong.append(traceback.format_exc())
            return BROKEN, self.wrong[-1]
        return "0", ""

    def _perform(self, change: Change) -> None:
        # One burst each: names become indexes before a burst is sent, a new bond has none then.
        perform(step_document(Burst((change,))))
        self.done.append(change.text)
        if isinstance(change, SetBond):
            self._read_back(change)

    def _read_back(self, change: SetBond) -> None:
        look = snapshot.take()
        link = look.link(change.name)
        seen = named(look, link.bond) if link and link.bond is not None else {}
        wanted = dict(change.options)
        if change.create:
            wanted.pop("primary", None)  # the kernel shows one that is a member (bond_fill_info)
        for name, (want, got) in differing(wanted, seen).items():
            self.wrong.append(f"{change.text}: {name} is {got}, not {want}")
