"""What waits for the sink: the newest word on each alert, and which were never told in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from linkhold.model import Moment
    from linkhold.relay.decide.values import Labels, Page

TOLD_S = 45.0
"""Longer than Alertmanager waits for a group (group_wait): an alert that ended sooner after it
was posted may have been told to nobody."""
LATE_S = 120.0
"""An alert that was posted so long after it began was held up, here or on the way."""
MOST_PENDING = 50_000


class Pending:
    """Alerts that the sink has not accepted; one entry for each, so bounded by the fleet."""

    def __init__(self) -> None:
        self._pages: dict[Labels, Page] = {}
        self._told: dict[Labels, float] = {}

    def __len__(self) -> int:
        return len(self._pages)

    def put(self, pages: Iterable[Page], now: Moment) -> list[Page]:
        """Add pages; return those that ended before anybody can have been told of them."""
        untold = []
        for page in pages:
            waiting = self._pages.get(page.labels)
            if page.ends_s is not None and self._untold(page, waiting, now):
                untold.append(page)
            if len(self._pages) < MOST_PENDING or waiting is not None:
                self._pages[page.labels] = page
        return untold

    def _untold(self, page: Page, waiting: Page | None, now: Moment) -> bool:
        told_s = self._told.pop(page.labels, None)
        if waiting is not None and waiting.ends_s is None and told_s is None:
            return True
        late = told_s is not None and told_s - page.starts_s > LATE_S
        return late and told_s is not None and now.wall_s - told_s < TOLD_S

    def waiting(self) -> Sequence[Page]:
        """Return what is to be posted, what begins before what ends."""
        return sorted(self._pages.values(), key=lambda page: page.ends_s is not None)

    def accepted(self, pages: Iterable[Page], now: Moment) -> None:
        """Take in that the sink has these."""
        for page in pages:
            if self._pages.get(page.labels) is page:
                del self._pages[page.labels]
            if page.ends_s is None:
                self._told.setdefault(page.labels, now.wall_s)
