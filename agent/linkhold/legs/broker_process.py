"""Who runs the node's broker: the agent, as its child, or systemd, as linkhold-broker.service."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from linkhold.children import Child, kill_leftovers, run
from linkhold.deadlines import within
from linkhold.legs.broker import Found, look_up, open_to_trainers, write_files
from linkhold.model import BrokerError, Unavailable
from linkhold.paths import NODE_RUN_DIR
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkhold.legs.broker import BrokerFiles

SOCKET_WAIT_S = 5.0
SOCKET_POLL_S = 0.02
LEFTOVER_WAIT_S = 2.0
NAMES_WAIT_S = 5.0
FRESH_NAMES_WAIT_S = 0.5
"""How long a broker waits for names when those of the last start are known."""
FILES_WAIT_S = 5.0
SYSTEMCTL_WAIT_S = 5.0
UNIT = "linkhold-broker.service"
STAMP = re.compile(r"^\d+: ")
"""What mosquitto puts before a line until it has read that it should not."""


class OwnBroker:
    """A mosquitto that is the agent's child. ``ended`` is set when it is of no use any more."""

    def __init__(self, files: BrokerFiles) -> None:
        self._files = files
        self._found: Found | None = None
        self._names: asyncio.Task[Found] | None = None
        self.child: Child | None = None
        self.ended = asyncio.Event()

    @property
    def lacks(self) -> str:
        """What it lacks here, in words."""
        return self._found.lacks if self._found else ""

    async def start(self) -> None:
        """Start it and return when its sockets are there; raises BrokerError, Unavailable."""
        found = await self._look_up()
        await self._clear_leftovers()
        await _in_time(lambda: write_files(self._files, found.user), "writing its files")
        self.ended = ended = asyncio.Event()  # a former broker may end later than we begin
        argv = [found.binary, "-c", str(self._files.configuration)]
        self.child = Child(argv, lambda _code: ended.set(), user=found.user)
        made = self._files.sockets_exist
        await _until(made, self._refuse_ended, "the broker made no sockets")
        await _in_time(lambda: open_to_trainers(self._files, found.group), "opening its sockets")

    async def _look_up(self) -> Found:
        """Return program, user and group: as they are now, or were when names last had an answer.

        A look-up that hangs is waited for again at the next attempt; there is never a second one.
        """
        if self._names is None:
            self._names = asyncio.create_task(in_thread(look_up))
        wait_s = NAMES_WAIT_S if self._found is None else FRESH_NAMES_WAIT_S
        await asyncio.wait({self._names}, timeout=wait_s)
        if self._names.done():
            names, self._names = self._names, None
            self._found = names.result()
        elif self._found is None:
            raise BrokerError("the look-up of its user and group does not answer")
        return self._found

    async def _clear_leftovers(self) -> None:
        find = in_thread(lambda: kill_leftovers("mosquitto", self._files.configuration))
        with contextlib.suppress(asyncio.TimeoutError):  # /proc may hang behind a hung process
            await within(find, LEFTOVER_WAIT_S)

    def _refuse_ended(self) -> None:
        if self.ended.is_set():
            raise BrokerError(self._last_words())

    def serves(self) -> None:
        """Take in that it answers: warnings of the start are not why it ends."""
        if self.child is not None:
            self.child.last_lines.clear()

    def why_ended(self) -> str:
        """Return its last words, empty while it lives."""
        return self._last_words() if self.child is not None and self.child.ended else ""

    def _last_words(self) -> str:
        lines = self.child.last_lines if self.child else ()
        if not lines:
            return "the broker ended"
        return f"the broker ended: {STAMP.sub('', lines[-1])}"

    async def end(self, *, broken: bool) -> None:  # noqa: ARG002 - as UnitBroker.end()
        """End it, whatever was the matter with it."""
        child, self.child = self.child, None
        if child is not None:
            child.kill()

    async def stop(self) -> None:
        """Let go of a look-up that hangs."""
        if self._names is not None:
            self._names.cancel()
            await asyncio.wait({self._names})


class UnitBroker:
    """A mosquitto that systemd runs as :data:`UNIT`, with the same configuration.

    It outlives the agent, and so do the sessions of trainers. The unit sets owner and mode of its
    sockets; all that is left to us is to have one that does not answer started anew.
    """

    def __init__(self, files: BrokerFiles) -> None:
        self._files = files
        self.lacks = ""
        self.ended = asyncio.Event()

    async def start(self) -> None:
        """Return when its sockets are there; raises :class:`BrokerError`."""
        self.ended = asyncio.Event()
        try:
            await _until(self._opened, lambda: None, f"{UNIT} has made no sockets")
        except BrokerError:
            await self.end(broken=True)
            raise

    def _opened(self) -> bool:
        """Tell whether both sockets are there and the unit has given us ours."""
        try:
            return self._files.trainer_socket.exists() and _is_ours(self._files.agent_socket)
        except OSError:
            return False

    def serves(self) -> None:
        """Take in that it answers."""

    def why_ended(self) -> str:
        """Return nothing: the journal has its last words."""
        return ""

    async def end(self, *, broken: bool) -> None:
        """Have systemd start it anew if it runs and is ``broken``; wait for no answer.

        The unit serves the node's own run folder; another folder's broker is not its.
        """
        if broken and self._files.run_dir == NODE_RUN_DIR:
            with contextlib.suppress(Unavailable):
                await in_thread(_start_unit_anew)

    async def stop(self) -> None:
        """Do nothing: it is not ours to end."""


def _start_unit_anew() -> None:
    """Restart the unit if it is active; raises :class:`Unavailable`. Blocking.

    systemctl's try-restart would also break off a start, which on a slow disk may take longer
    than we wait; a start that hangs is ended by the unit's own limit.
    """
    if run(["systemctl", "is-active", "--quiet", UNIT], timeout_s=SYSTEMCTL_WAIT_S).code == 0:
        run(["systemctl", "--no-block", "try-restart", UNIT], timeout_s=SYSTEMCTL_WAIT_S)


def _is_ours(path: Path) -> bool:
    return path.stat().st_uid == os.geteuid()


async def _until(made: Callable[[], bool], check: Callable[[], None], otherwise: str) -> None:
    deadline = time.monotonic() + SOCKET_WAIT_S
    while not made():
        check()
        if time.monotonic() > deadline:
            raise BrokerError(otherwise)
        await asyncio.sleep(SOCKET_POLL_S)


async def _in_time(call: Callable[[], None], what: str) -> None:
    """Do what a file system may hold up, off the loop; raises :class:`BrokerError` if it does."""
    try:
        await within(in_thread(call), FILES_WAIT_S)
    except asyncio.TimeoutError:
        raise BrokerError(f"{what} took more than {FILES_WAIT_S:g} s") from None
