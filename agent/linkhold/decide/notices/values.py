"""One answer of a metadata service, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Known(str, Enum):
    """Whether an answer says what is announced.

    ``unknown``: what was known before stays. ``absent``: there is no such service here.
    """

    YES = "yes"
    UNKNOWN = "unknown"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: ``url`` as asked, ``status`` None when nothing came back.

    ``headers`` are None where they are not known (a recorded answer). ``this_vm`` is this
    machine's name for Azure, empty when unknown. ``heard_before``: the service has answered once.
    """

    url: str
    status: int | None
    body: str = ""
    headers: Mapping[str, str] | None = None
    this_vm: str = ""
    heard_before: bool = False

    @property
    def path(self) -> str:
        """The path of the URL, without query and a slash at its end."""
        without_query = self.url.partition("?")[0]
        return "/" + without_query.partition("://")[2].partition("/")[2].rstrip("/")


@dataclass(frozen=True, slots=True)
class Announced:
    """One thing that a service announces.

    ``key`` names it within its service; with ``status`` it tells each event once. ``kind`` and
    ``action`` are those of :class:`linkhold.model.Notice`; ``retire`` and so on never appear: what
    is new is ``unknown``. ``at_s`` is when it happens, in seconds since 1970 by the service's
    clock, None: not told, or at once (``now``). ``duration_s`` is how long a pause lasts.
    """

    key: str
    kind: str
    action: str
    status: str = ""
    at_s: float | None = None
    now: bool = False
    duration_s: float | None = None
    min_notice_s: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """What an answer says. ``announced`` counts only while ``known`` is ``yes``.

    ``cleared`` are keys that the service itself calls cancelled or completed. ``date_s`` is the
    answer's Date header in seconds since 1970. ``token_refused``: a new token may help.
    """

    known: Known
    why: str
    announced: tuple[Announced, ...] = ()
    cleared: tuple[str, ...] = ()
    date_s: float | None = None
    token_refused: bool = field(default=False)


class Odd(Exception):
    """An answer makes no sense; the text says why. Never leaves this package."""
