"""A real browser without a window: Debian's Chromium, and what it has drawn."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = "chromium"
TIMEOUT_S = 90
_QUIET = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-extensions"),
)


def missing() -> str:
    """Return why there is no browser, empty when there is one."""
    return "" if shutil.which(CHROMIUM) else "chromium is not installed; make setup"


_ALONE = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--net")
"""A network namespace without any link: nothing that a browser asks for leaves this machine."""
_OWN = re.compile(r"https?://[a-z0-9.]+\.google(apis)?\.com/")


class Browser:
    """Opens files; its profile lies in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pictures: dict[Path, Any] = {}

    def _run(self, page: Path, *arguments: str, dark: bool = False) -> str:
        command = [
            *("setpriv", "--pdeathsig", "KILL", "--", *_ALONE, CHROMIUM, *_QUIET),
            f"--user-data-dir={self._folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            *arguments,
            page.as_uri(),
        ]
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        assert run.returncode == 0, run.stderr[-2000:]
        return run.stdout

    def dom(self, page: Path) -> str:
        """Return the document as the browser has it after everything ran."""
        return self._run(page, "--dump-dom")

    def picture(self, page: Path, *, dark: bool = False, wide: int = 1000, high: int = 700) -> Any:
        """Return what is drawn: an array of rows, columns and red, green, blue.

        Equal questions are answered once; the files stay in the folder, for who wants to look.
        """
        file = self._folder / f"{page.stem}-{wide}x{high}-{'dark' if dark else 'light'}.png"
        if file not in self._pictures:
            size = (f"--window-size={wide},{high}", f"--screenshot={file}")
            self._run(page, *size, dark=dark)
            self._pictures[file] = read_png(file.read_bytes())
        return self._pictures[file]

    def requests(self, page: Path) -> set[str]:
        """Return every address that was asked for while the page was open, but the browser's own.

        Chromium asks its maker for updates and the time, whatever it is told.
        """
        log = self._folder / "netlog.json"
        self._run(page, f"--log-net-log={log}", "--dump-dom")
        asked = {*re.findall(r'"url":"([^"]*)"', log.read_text())}
        return {url for url in asked if not _OWN.match(url)}

    def printed(self, page: Path) -> bytes:
        """Return the page as a PDF."""
        file = self._folder / f"{page.stem}.pdf"
        self._run(page, f"--print-to-pdf={file}", "--no-pdf-header-footer", dark=True)
        return file.read_bytes()


def read_png(data: bytes) -> Any:
    """Return an 8-bit PNG of red, green, blue (and alpha) as an array (PNG, second edition)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, head = 8, b"", b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        head = body if kind == b"IHDR" else head
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    wide, high, depth, colour = struct.unpack(">IIBB", head[:10])
    assert (depth, colour) in {(8, 2), (8, 6)}
    step = 3 if colour == 2 else 4
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(high, 1 + wide * step)
    return _unfiltered(rows, step).reshape(high, wide, step)[:, :, :3]


def _unfiltered(rows: Any, step: int) -> Any:
    out = np.zeros((len(rows), rows.shape[1] - 1), np.uint8)
    above = np.zeros(rows.shape[1] - 1, np.uint8)
    for number, row in enumerate(rows):
        kind, line = int(row[0]), row[1:]
        if kind == 0:
            out[number] = line
        elif kind == 1:
            sums = np.cumsum(line.reshape(-1, step).astype(np.uint64), axis=0)
            out[number] = (sums % 256).astype(np.uint8).reshape(-1)
        elif kind == 2:
            out[number] = line + above
        else:
            out[number] = _slow(kind, line.tolist(), above.tolist(), step)
        above = out[number]
    return out


def _slow(kind: int, line: list[int], above: list[int], step: int) -> list[int]:
    """Undo the filters that look at both neighbours: average and Paeth."""
    out: list[int] = []
    for at, value in enumerate(line):
        left = out[at - step] if at >= step else 0
        up = above[at]
        if kind == 3:
            guess = (left + up) // 2
        else:
            corner = above[at - step] if at >= step else 0
            base = left + up - corner
            near = (abs(base - left), abs(base - up), abs(base - corner))
            guess = (left, up, corner)[near.index(min(near))]
        out.append((value + guess) % 256)
    return out
