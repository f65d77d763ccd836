"""The terminal of ``linkhold top``: taken over for a while, given back however that ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from linkhold.fleet_view.keys import decode
from linkhold.fleet_view.paint import changes
from linkhold.fleet_view.screen import Size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType, TracebackType

    from typing_extensions import Self

    from linkhold.fleet_view.screen import Line

ENTER = "\x1b[?1049h\x1b[?25l"
"""The other screen, so that what stood there comes back, and no cursor (xterm)."""
LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
ESCAPE_S = 0.05
"""A lone escape is the key when nothing follows for so long."""
ENDING = (signal.SIGTERM, signal.SIGHUP)


class Terminal:
    """Standard input and output as a screen; a context manager.

    ``ended`` is the signal that asks us to leave, 0 while none did.
    """

    def __init__(self) -> None:
        self.ended = 0
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._console = Console(highlight=False, markup=False, emoji=False, force_terminal=True)
        self._encoding = sys.stdout.encoding or "utf-8"
        self._saved = termios.tcgetattr(self._in)
        self._shown: list[str] | None = None
        self._rest = b""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self._before: dict[signal.Signals, object] = {}
        self._stop_asked = False

    def __enter__(self) -> Self:
        signals = (*ENDING, signal.SIGWINCH, signal.SIGTSTP)
        for number in signals:
            self._before[number] = signal.signal(number, self._signalled)
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._give_back()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _take(self) -> None:
        # Ctrl-C stays a signal: it must end us also while a slow line takes what is drawn.
        tty.setcbreak(self._in, termios.TCSANOW)
        self._write(ENTER)
        self._shown = None

    def _give_back(self) -> None:
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            termios.tcsetattr(self._in, termios.TCSANOW, self._saved)
            self._write(LEAVE)

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if number in ENDING:
            self.ended = number
        elif number == signal.SIGTSTP:
            self._stop_asked = True
        self._shown = None
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"\0")

    def _suspend(self) -> None:
        """Give the terminal to the shell, stop, and take it again when we go on."""
        self._stop_asked = False
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._take()

    @property
    def size(self) -> Size:
        """The size now, at least one cell."""
        try:
            columns, rows = os.get_terminal_size(self._out)
        except OSError:
            columns, rows = 80, 24
        return Size(columns or 80, rows or 24)

    def show(self, lines: Sequence[Line]) -> None:
        """Draw lines; what stands there already is not written again."""
        drawn = [self._rendered(line) for line in lines]
        before, self._shown = self._shown, drawn
        self._write(changes(before, drawn))

    def redraw(self) -> None:
        """Forget what stands on the screen, so that all of it is written again."""
        self._shown = None

    def _rendered(self, line: Line) -> str:
        if not line:
            return ""
        with self._console.capture() as capture:
            text = Text.assemble(*line, no_wrap=True, overflow="ignore", end="")
            self._console.print(text, end="", soft_wrap=True)
        return capture.get().rstrip(" ")

    def _write(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._out, data) :]

    def wait(self, timeout_s: float, wake_fd: int) -> list[str]:
        """Wait for keys, a signal or a byte on ``wake_fd``; return the keys, oldest first."""
        poll = select.poll()
        for descriptor in (self._in, self._wake_read, wake_fd):
            poll.register(descriptor, select.POLLIN)
        ready = dict(poll.poll(timeout_s * 1000))
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_read, 4096)
        if self._stop_asked:
            self._suspend()
        return self._keys() if self._in in ready else []

    def _keys(self) -> list[str]:
        data = os.read(self._in, 4096)
        if not data:  # the terminal is gone
            self.ended = signal.SIGHUP
            return []
        keys, self._rest = decode(self._rest + data, ended=False)
        if self._rest:
            poll = select.poll()
            poll.register(self._in, select.POLLIN)
            if not poll.poll(ESCAPE_S * 1000):
                last, self._rest = decode(self._rest, ended=True)
                keys += last
        return keys
