"""The whole look at a host, for ``linkhold bond plan``: every part once, one failure each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from linkhold.model.survey import Survey
from linkhold.survey import cloud_init, jobs, links, nic, root, routes
from linkhold.survey.files import Reader
from linkhold.survey.owners import Owners

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def look(names: Sequence[str], bond: str = "bond0", base: Path = Path("/")) -> Survey:
    """Return what was found about the interfaces ``names``, which are to make ``bond``.

    May take a second on a busy host (it reads all of /proc): call it from a thread. Netlink is
    asked only about this host, so with another ``base`` what only netlink tells is unknown.
    """
    reader = Reader(base)
    here = base == Path("/")
    doubts: list[str] = []
    facts = _asked(links.facts, here, doubts)
    owners = Owners(reader, _asked(routes.dhcp_interfaces, here, doubts))
    found = [(name, nic.look(reader, name, facts)) for name in names]
    nics = tuple(one for _, one in found if one is not None)
    return Survey(
        nics=nics,
        owners=tuple(owners.of(one.name, one.index) for one in nics),
        missing=tuple(name for name, one in found if one is None),
        root=root.look(reader, routes.interface_to if here else _not_here),
        jobs=jobs.look(reader, [one.name for one in nics], bond),
        cloud_init=cloud_init.look(reader),
        managers=owners.managers,
        unknown=tuple(dict.fromkeys(doubts)),
    )


def _asked(question: Callable[[], T], here: bool, doubts: list[str]) -> T | None:  # noqa: FBT001
    if not here:
        doubts.append("netlink was not asked: the files are of another host")
        return None
    try:
        return question()
    except OSError as error:
        doubts.append(str(error))
        return None


def _not_here(address: str) -> str:
    raise OSError(f"the way to {address} is another host's")
