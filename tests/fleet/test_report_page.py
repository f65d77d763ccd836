"""The report as a real browser draws it, of one node and of a thousand."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from linkhold.report.style import DARK, LIGHT
from support import browser
from support.browser import Browser
from support.days import Day, random_day
from support.html_page import Parsed
from support.running import LINKHOLD

if TYPE_CHECKING:
    from pathlib import Path

CONTROL = "<img src=http://127.0.0.1:9/control>"
HOSTILE = (
    '"><img src=http://127.0.0.1:9/x onerror=document.title=1><script>document.title=2</script>'
)


def colour(name: str, look: dict[str, str]) -> Any:
    """Return a colour of the page as red, green, blue."""
    return np.array([int(look[name][at : at + 2], 16) for at in (1, 3, 5)])


def share(picture: Any, wanted: Any) -> float:
    """Return which share of a picture has a colour, give or take what a screen rounds."""
    return float((np.abs(picture.astype(int) - wanted).max(axis=2) <= 3).mean())


def write(folder: Path, name: str, *days: Day) -> Path:
    """Make the page with the command, from a file of events."""
    events, page = folder / f"{name}.jsonl", folder / f"{name}.html"
    with events.open("wb") as file:
        for day in days:
            file.writelines(day.lines())
    command = [str(LINKHOLD), "report", "--html", "--since", "1d", str(events), "-o", str(page)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    return page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for pages, pictures and the browser's profile; skips without a browser."""
    if browser.missing():
        pytest.skip(browser.missing())
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def chromium(folder: Path) -> Browser:
    """The browser."""
    return Browser(folder)


@pytest.fixture(scope="module")
def one(folder: Path) -> tuple[Path, Day]:
    """A day of one node: without network from 30 % to 60 % of it, and otherwise well."""
    day = Day("gpu-0412", "muc")
    day.wait(0.3 * 86400)
    day.lose_network(0.3 * 86400)
    day.wait(0.4 * 86400)
    day.lose_member(1)  # a file's period ends with its last event
    return write(folder, "one", day), day


@pytest.fixture(scope="module")
def fleet(folder: Path) -> Path:
    """A day of a thousand nodes."""
    return write(folder, "fleet", *(random_day(number) for number in range(1000)))


def bars_of(picture: Any, look: dict[str, str]) -> tuple[float, float]:
    """Return from where to where the widest red bar goes, as shares of the axis' ground."""
    ground = np.abs(picture.astype(int) - colour("ground", look)).max(axis=2) <= 3
    red = np.abs(picture.astype(int) - colour("bad", look)).max(axis=2) <= 3
    row = int(np.argmax(red.sum(axis=1)))
    inside = np.flatnonzero(ground[row] | red[row])
    left, right = int(inside.min()), int(inside.max())
    found = np.flatnonzero(red[row])
    return (found.min() - left) / (right - left), (found.max() - left) / (right - left)


@pytest.mark.parametrize(("dark", "look"), [(False, LIGHT), (True, DARK)])
def test_an_outage_is_drawn_where_it_was(
    chromium: Browser,
    one: tuple[Path, Day],
    dark: bool,  # noqa: FBT001
    look: dict[str, str],
) -> None:
    """The red bar of the network goes from 30 % to 60 % of the axis, in light and in dark."""
    picture = chromium.picture(one[0], dark=dark)
    begin, end = bars_of(picture, look)

    assert pytest.approx(begin, abs=0.01) == 0.30
    assert pytest.approx(end, abs=0.01) == 0.60
    assert share(picture, colour("page", look)) > 0.1
    assert share(picture, colour("card", look)) > 0.2
    assert share(picture, colour("ink", look)) > 0.001
    assert share(picture, colour("held", look)) > 0.0002


def test_light_and_dark_are_different(chromium: Browser, fleet: Path) -> None:
    """The page follows the reader's choice, and is no blank sheet either way."""
    light, dark = (chromium.picture(fleet, dark=dark) for dark in (False, True))

    assert light.mean() > 200
    assert dark.mean() < 60
    for picture in (light, dark):
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_a_thousand_nodes_are_drawn(chromium: Browser, fleet: Path) -> None:
    """The page is small, has every node, and bars of outages, in a wide and a narrow window."""
    parsed = Parsed(chromium.dom(fleet))

    assert fleet.stat().st_size < 5_000_000
    assert "1000 nodes of lab: what happened" in parsed.text
    assert all(f"gpu-{number:04}" in parsed.text for number in range(0, 1000, 50))
    for wide, high in ((1000, 700), (420, 1000)):
        picture = chromium.picture(fleet, wide=wide, high=high)
        assert share(picture, colour("bad", LIGHT)) > 0.001
        assert share(picture, colour("warn", LIGHT)) > 0.001


def test_the_page_fetches_nothing(chromium: Browser, one: tuple[Path, Day], folder: Path) -> None:
    """The browser asks the network for nothing; a page that does is found out by the same look."""
    control = folder / "control.html"
    control.write_text(one[0].read_text().replace("default-src", "font-src") + CONTROL)

    assert any("127.0.0.1:9" in url for url in chromium.requests(control))
    assert set() == chromium.requests(one[0])


def test_a_hostile_name_does_nothing(chromium: Browser, folder: Path) -> None:
    """A node whose name is a program is shown by that name, and nothing of it runs."""
    day = Day(HOSTILE.replace("/", "|"))
    day.wait(100)
    day.lose_network(100)
    day.wait(100)
    page = write(folder, "hostile", day)
    dom = chromium.dom(page)
    parsed = Parsed(dom.replace("<!DOCTYPE html>", ""))

    assert not {"img", "script"} & parsed.names
    assert re.search(r"<title>&quot;&gt;&lt;img|<title>\"&gt;&lt;img", dom)
    assert set() == chromium.requests(page)


def test_it_can_be_printed(chromium: Browser, one: tuple[Path, Day], fleet: Path) -> None:
    """A page that is read in the dark is printed dark on white, on some sheets.

    A thousand nodes too, in a file that a printer takes: patterns would make it a hundred times
    as large.
    """
    for page, most_sheets in ((one[0], 6), (fleet, 60)):
        printed = chromium.printed(page)

        assert printed.startswith(b"%PDF")
        assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= most_sheets
        assert len(printed) < 3_000_000
