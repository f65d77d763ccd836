"""A program in a terminal of its own: keys go in, and what a person would see comes out."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_PART = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b.|[\r\n\b]|[^\x1b\r\n\b]+")


class Screen:
    """The part of an xterm that ``linkhold top`` uses: text, cursor, erasing, other screen.

    Anything else is an error: the test must know what it looks at.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.other = False
        self.cursor_shown = True
        self.styled = False
        self._rest = ""
        self._wipe()

    def _wipe(self) -> None:
        self._cells = [[" "] * self.columns for _ in range(self.rows)]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        """Take in what the program wrote."""
        text = self._rest + text
        cut = text.rfind("\x1b")
        whole = cut < 0 or re.match(r"\x1b(\[[?0-9;]*[A-Za-z]|[^\[])", text[cut:])
        self._rest = "" if whole else text[cut:]
        for part in _PART.finditer(text if whole else text[:cut]):
            self._take(part)

    def _take(self, part: re.Match[str]) -> None:
        arguments, letter = part[1], part[2]
        if letter is None:
            self._write(part[0])
        elif letter == "m":
            self.styled |= arguments not in {"", "0", "7"}
        elif letter == "H":
            row, _, column = arguments.partition(";")
            self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
        elif letter == "J":
            assert arguments == "2"
            self._cells = [[" "] * self.columns for _ in range(self.rows)]
        elif letter == "K":
            self._cells[self._row][self._column :] = [" "] * (self.columns - self._column)
        elif arguments == "?1049":
            self.other = letter == "h"
            self._wipe()
        elif arguments == "?25":
            self.cursor_shown = letter == "h"
        else:
            raise AssertionError(f"not a sequence that this screen knows: {part[0]!r}")

    def _write(self, text: str) -> None:
        if text == "\r":
            self._column = 0
        elif text == "\n":
            self._row += 1
        else:
            assert self._column + len(text) < self.columns or not self.other, "it wraps"
            for letter in text:
                if self._row < self.rows and self._column < self.columns:
                    self._cells[self._row][self._column] = letter
                self._column += 1

    @property
    def lines(self) -> list[str]:
        """What stands on the screen, row by row."""
        return ["".join(row).rstrip() for row in self._cells]

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(self.lines)


class InTerminal:
    """A program whose terminal is ours; ``written`` counts the bytes that it wrote."""

    def __init__(
        self, command: Sequence[str], *, columns: int = 100, rows: int = 30, **env: str
    ) -> None:
        self.screen = Screen(columns, rows)
        self.written = 0
        self.raw = ""
        self._master, self._slave = pty.openpty()
        self._descriptors: tuple[int, ...] = (self._master, self._slave)
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self._slave)
        environment: Mapping[str, str] = {**os.environ, "TERM": "xterm-256color", **env}
        self.process = subprocess.Popen(
            command,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env=environment,
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 -- one ioctl, no lock
        )

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, and tell the program as the kernel does."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if (columns, rows) != (self.screen.columns, self.screen.rows):
            other, self.screen = self.screen.other, Screen(columns, rows)
            self.screen.other = other

    @property
    def attributes(self) -> list[Any]:
        """The settings of the terminal, as tcgetattr(3) tells them."""
        return termios.tcgetattr(self._slave)

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def read(self, seconds: float) -> str:
        """Take in what is written within a time; return it."""
        until_s, got = time.monotonic() + seconds, ""
        while (left_s := until_s - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left_s)[0]:
                break
            data = os.read(self._master, 65536).decode()
            self.written += len(data)
            self.screen.feed(data)
            got += data
        self.raw += got
        return got

    def wait_for(self, check: Callable[[Screen], object], timeout_s: float = 15.0) -> None:
        """Read until the screen is as wanted."""
        until_s = time.monotonic() + timeout_s
        while not check(self.screen):
            assert time.monotonic() < until_s, f"not within {timeout_s} s:\n{self.screen.text}"
            self.read(0.05)

    def end(self, timeout_s: float = 10.0) -> int:
        """Wait for the program's end, reading on; return its exit code."""
        until_s = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < until_s, "it does not end"
            self.read(0.05)
        self.read(0.1)
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal under the program, as a lost connection does."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = ()

    def close(self) -> None:
        """End the program whatever it does, and close the terminal."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.hang_up()


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C and Ctrl-Z become signals
    signal.signal(signal.SIGINT, signal.default_int_handler)
