"""A cable that is pulled and plugged while somebody looks how quickly it is noticed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from support.running import agent_of

if TYPE_CHECKING:
    from support.netns import Namespace
    from support.running import Running
    from support.trainer import Trainer

NOTICED_S = 2.0
"""Far below what a hung disk costs; other work on the machine may hold the kernel's RTNL lock."""


class Cable:
    """Pulls and plugs eth0's cable and checks that file and leg A show it at once."""

    def __init__(self, ns: Namespace, agent: Running, trainer: Trainer) -> None:
        self._ns, self._agent, self._trainer = ns, agent, trainer
        self._peer = ns.index("p0")

    def check(self) -> float:
        """Return the longest time in seconds that a change took to both."""
        return max(self._set(up=False, word="down"), self._set(up=True, word="ok"))

    def _set(self, *, up: bool, word: str) -> float:
        began_s = time.monotonic()
        self._ns.flip(self._peer, up=up)
        self._agent.wait_for(lambda state: state["network"] == word, NOTICED_S)
        self._trainer.wait_for(lambda s: s["network"] == word, NOTICED_S)
        return time.monotonic() - began_s


def until_volatile(agent: Running, cable: Cable) -> None:
    """Make events until the outbox says that the disk takes none."""
    for _ in range(100):  # a full disk has room in pages that the file has already
        cable.check()
        if agent_of(agent.state())["outbox"].startswith("volatile: "):
            break
    agent.wait_for(lambda s: agent_of(s)["outbox"].startswith("volatile: "), 1)
    cable.check()
