"""Stories -> everything that a page says, in the order in which it says it: no HTML yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.fleet_view.words import lasted
from linkhold.report.axis import stamp
from linkhold.report.costs import total
from linkhold.report.spans import Kind, Level
from linkhold.report.story import worst_causes, worst_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkhold.fleet_view.picture import Key
    from linkhold.report.costs import Outage
    from linkhold.report.spans import Period
    from linkhold.report.story import Offender, Story

MOST_OUTAGES = 300
MOST_STRIPS = 200
MOST_STORIES = 20
MOST_LANES = 60
MOST_OFFENDERS = 10
MOST_NAMED = 5000


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure at the top: what, how much, and what it means; ``look`` is its colour."""

    value: str
    label: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page; of ``outages`` the dearest, ``outages_left`` how many more there were."""

    title: str
    period: Period
    made_s: float
    tiles: tuple[Tile, ...]
    stories: tuple[Story, ...]
    troubled: tuple[Story, ...]
    quiet: tuple[Story, ...]
    outages: tuple[Outage, ...]
    causes: tuple[Offender, ...]
    parts: tuple[Offender, ...]
    notes: tuple[str, ...]
    outages_left: int = 0
    one_site: bool = True

    @property
    def several(self) -> bool:
        """Whether the page is about more than one node."""
        return len(self.stories) > 1

    def name_of(self, key: Key) -> str:
        """Return how a node is called here: by its site too where there are more than one."""
        return name_of(key, one_site=self.one_site)


def name_of(key: Key, *, one_site: bool) -> str:
    """Return a node's name, with its site where there are several."""
    return key[1] if one_site else "/".join(key)


def compose(
    stories: Sequence[Story], period: Period, made_s: float, notes: Sequence[str] = ()
) -> Page:
    """Return the page about ``stories``, which are in order, the worst first."""
    one_site = len({story.key[0] for story in stories}) == 1
    found = [one for story in stories for one in story.outages]
    found.sort(key=lambda one: (-one.cost.weight, -one.span.seconds, one.span.start_s))
    troubled = [story for story in stories if not story.quiet]

    def named(key: Key) -> str:
        return name_of(key, one_site=one_site) if len(stories) > 1 else ""

    return Page(
        title=_title(stories),
        period=period,
        made_s=made_s,
        tiles=tuple(_tiles(stories, found)),
        stories=tuple(stories),
        troubled=tuple(troubled),
        quiet=tuple(story for story in stories if story.quiet),
        outages=tuple(found[:MOST_OUTAGES]),
        causes=tuple(worst_causes(stories, MOST_OFFENDERS)),
        parts=tuple(worst_parts(stories, MOST_OFFENDERS, named)),
        notes=(*notes, *_own_notes(stories, period)),
        outages_left=max(0, len(found) - MOST_OUTAGES),
        one_site=one_site,
    )


def _title(stories: Sequence[Story]) -> str:
    if len(stories) == 1:
        return f"{stories[0].key[1]}: what happened"
    sites = {story.key[0] for story in stories}
    where = f" of {next(iter(sites))}" if len(sites) == 1 else ""
    return f"{len(stories)} nodes{where}: what happened"


def _tiles(stories: Sequence[Story], found: Sequence[Outage]) -> list[Tile]:
    held = total(story.held for story in stories)
    down_s = sum(story.down_s for story in stories)
    battery_s = sum(story.battery_s for story in stories)
    longest = max((one.span.seconds for one in found), default=0.0)
    lasting = sum(one.span.lasting for one in found)
    several = len(stories) > 1
    sum_ = ", all nodes together" if several else ""
    tiles = [
        Tile(str(len(found)), "outages", "bad" if found else "good"),
        Tile(lasted(longest) if found else "none", "the longest outage"),
        Tile(lasted(down_s), f"without network{sum_}", "bad" if down_s else ""),
        Tile(lasted(battery_s), f"on battery{sum_}", "bad" if battery_s else ""),
        Tile(lasted(held.uploads_s), f"uploads held{sum_}", "held" if held.uploads_s else ""),
        Tile(lasted(held.training_s), f"training held{sum_}", "held" if held.training_s else ""),
    ]
    if held.asked_s:
        tiles.append(Tile(lasted(held.asked_s), f"held in jobs that asked{sum_}", "held"))
    if several:
        troubled = sum(not story.quiet for story in stories)
        look = "warn" if troubled else "good"
        tiles.insert(0, Tile(f"{troubled} of {len(stories)}", "nodes had trouble", look))
    if lasting:
        tiles.append(Tile(str(lasting), "not over yet", "bad"))
    return tiles


def _own_notes(stories: Sequence[Story], period: Period) -> list[str]:
    notes = []
    late = [s for s in stories if s.first_s is not None and s.first_s > period.from_s + 60]
    silent = [story for story in stories if story.events == 0]
    stepped = [story for story in stories if story.stepped]
    if len(stories) == 1 and late:
        first_s = late[0].first_s or 0.0
        notes.append(f"The first event that is known is of {stamp(first_s)} UTC.")
    if silent:
        count = "It" if len(stories) == 1 else f"{len(silent)} of {len(stories)} nodes"
        notes.append(f"{count} told no event: only the present state is known, where there is one.")
    if stepped:
        names = ", ".join(story.key[1] for story in stepped[:5])
        more = f" and {len(stepped) - 5} more" if len(stepped) > 5 else ""  # noqa: PLR2004
        notes.append(
            f"The clock of {names}{more} was set while it ran; earlier events are shown "
            "where they would have been on the right clock."
        )
    unexplained = total(story.unexplained for story in stories)
    if unexplained.uploads_s + unexplained.training_s > 1:
        notes.append(
            f"{lasted(unexplained.uploads_s)} of held uploads and "
            f"{lasted(unexplained.training_s)} of held training fit to no outage that is known; "
            "links that come and go too often hold uploads too."
        )
    return notes


def counted_lanes(story: Story) -> tuple[list[int], int]:
    """Return which lanes of a story are drawn, and how many are left out."""
    shown = [
        position
        for position, lane in enumerate(story.lanes)
        if lane.spans or lane.kind in {Kind.BOND, Kind.UPLINK, Kind.AGENT, Kind.NOTICE}
    ]
    return shown[:MOST_LANES], max(0, len(shown) - MOST_LANES)


def strip_level(level: Level) -> bool:
    """Tell whether spans of a level stand in the one row that a fleet's page gives a node."""
    return level >= Level.HELD
