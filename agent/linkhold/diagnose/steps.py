"""The machinery of steps: each has a deadline, tells how it goes, and never fails the others."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

from linkhold.deadlines import within
from linkhold.model import LinkholdError
from linkhold.model.diagnosis import Missing
from linkhold.rtnl.framing import Malformed
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
Progress = "Callable[[str, bool], None]"


class Steps:
    """Runs steps and keeps what they could not see. Belongs to one event loop.

    ``progress`` is called with a step's name when it begins (False) and ends (True); ``end_s`` is
    the time of ``time.monotonic()`` at which every step ends, whatever its own deadline.
    """

    def __init__(self, progress: Callable[[str, bool], None], end_s: float) -> None:
        self.missing: list[Missing] = []
        self._progress = progress
        self._end_s = end_s

    @property
    def left_s(self) -> float:
        """The seconds that are left of the whole run."""
        return max(0.0, self._end_s - time.monotonic())

    async def run(self, name: str, work: Awaitable[T], deadline_s: float) -> T | None:
        """Return what ``work`` returns; None when it is late or fails, which is then noted."""
        self._progress(name, False)
        try:
            return await within(work, min(deadline_s, self.left_s))
        except asyncio.TimeoutError:
            self.lack(name, f"no result within {deadline_s:g} s")
        except (LinkholdError, Malformed) as error:
            self.lack(name, str(error))
        except OSError as error:
            self.lack(name, error.strerror or str(error))
        finally:
            self._progress(name, True)
        return None

    async def blocking(self, name: str, work: Callable[[], T], deadline_s: float) -> T | None:
        """Run a blocking ``work`` in a thread; one that hangs is left to itself."""
        return await self.run(name, in_thread(work), deadline_s)

    def lack(self, step: str, why: str) -> None:
        """Note something that could not be seen."""
        self.missing.append(Missing(step, why))
