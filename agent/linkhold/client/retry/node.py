"""The stop condition: what the node's state says about calls over the network.

The state is the newest one that the client's listener believes; one that an agent no longer stands
behind stops nothing.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from linkhold.client import decision, fork
from linkhold.client.listener import Source, listener_for
from linkhold.model import Network, Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from linkhold.wire import StateView

FIRST_WORD_S = 0.3
"""So long a call waits for the agent's first word, after the process was deaf."""
IDLE_S = 30.0


class Watcher(Protocol):
    """Somebody who wants to hear at once that the node's state changed."""

    def heed(self) -> object:
        """Look at the node's state."""


def stopped(view: StateView | None, stop_on: Collection[str], now_ns: int) -> str | None:
    """Return why no attempt is to be made now, None if nothing speaks against one. Pure."""
    if view is None or not decision.is_fresh(view, now_ns):
        return None
    if "network" in stop_on and view.network is Network.DOWN:
        return decision.why(view)
    if "uploads" in stop_on and view.advice.uploads is Uploads.HOLD:
        return f"uploads are on hold: {decision.why(view)}"
    return None


class Node:
    """The state of this node, as one listener hears it while there are calls."""

    def __init__(
        self,
        source: Callable[[], Source],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._make = source
        self._source: Source | None = None
        self._now_ns = now_ns
        self._watchers: weakref.WeakSet[Watcher] = weakref.WeakSet()
        self._follows = False
        self._since_ns = self._used_ns = 0
        self._lock = threading.Lock()
        fork.remember(self)

    def listen(self, watcher: Watcher) -> None:
        """Follow the state from now on, in this process; call it often, it costs next to nothing.

        ``watcher`` hears of changes while it lives. Ends by itself when it was not called, nor
        was :meth:`why_not`, for 30 s.
        """
        with self._lock:
            if self._source is None:
                self._source = self._make()
            self._used_ns = self._now_ns()
            self._watchers.add(watcher)
            if not self._follows:
                self._follows, self._since_ns = True, self._used_ns
                self._source.add(self._changed)
                self._source.attend(self._rest_when_idle)
            source = self._source
        source.ensure()

    def rest(self) -> None:
        """Stop following the state until the next call; the listening thread may end."""
        with self._lock:
            if self._source is not None and self._follows:
                self._follows = False
                self._source.remove(self._changed)
                self._source.neglect(self._rest_when_idle)

    @property
    def looked(self) -> bool:
        """Whether the state is known, or there was time enough to hear of it."""
        source, now_ns = self._source, self._now_ns()
        if source is None or now_ns - self._since_ns > FIRST_WORD_S * 1e9:
            return True
        old = source.newest is not None and not decision.is_fresh(source.newest, now_ns)
        return source.looked and not old

    def why_not(self, stop_on: Collection[str]) -> str | None:
        """Return why no attempt is to be made now, None if nothing speaks against one."""
        now_ns = self._used_ns = self._now_ns()
        view = None if self._source is None else self._source.newest
        return stopped(view, stop_on, now_ns)

    def after_fork(self) -> None:
        """Get a lock of the child's own; its listener is started by its own first call."""
        self._lock = threading.Lock()

    def _changed(self) -> None:
        for watcher in tuple(self._watchers):
            watcher.heed()

    def _rest_when_idle(self) -> None:
        if self._now_ns() - self._used_ns > IDLE_S * 1e9:
            self.rest()


_nodes: dict[Path | None, Node] = {}


def node_for(run_dir: Path | None) -> Node:
    """Return the node whose agent has ``run_dir`` (None: wherever the agent is found)."""
    return _nodes.setdefault(run_dir, Node(lambda: listener_for(run_dir)))
