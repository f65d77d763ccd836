"""What the pages say about installing works as it is typed, from a wheel of this checkout.

With ``--dry-run`` all is planned and nothing done; tests/lab/test_service.py does it for real.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs.pages import ALL_BLOCKS, Line, shell_lines
from docs.rules import Where, rule_for
from support import installed

if TYPE_CHECKING:
    from pathlib import Path

    from docs.place import Host

LINES = [
    line
    for block in ALL_BLOCKS
    if block.kind == "shell"
    for line in shell_lines(block)
    if (rule := rule_for(line.text)) and rule.where is Where.SETUP
]
WITHOUT_SYSTEMD = "works on a running host with systemd"

pytestmark = pytest.mark.skipif(bool(installed.missing()), reason=installed.missing())


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_it_plans(host: Host, wheel: Path, line: Line) -> None:
    """The wheel has the name on the page, and what is typed plans its steps, by Debian's Python.

    Only the restoring of a host must be refused here, since no systemd runs.
    """
    places = (host.home, host.home / "dist")  # as a page of a checkout has it, and as others do
    host.write({f"{place}/{wheel.name}": wheel.read_bytes() for place in places})
    if not re.search(r"-m linkhold", line.text):  # the first install has put it there
        host.write({f"{host.home}/linkhold": _command(wheel)}, 0o755)
    typed = line.text if "--dry-run" in line.text else f"{line.text} --dry-run"

    done = host.run(f"PATH=$PWD:/usr/bin:/bin:$PATH; hash -r; {typed}")

    if "--restore-host" in typed:
        assert (done.returncode, WITHOUT_SYSTEMD in done.stderr) == (1, True), done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert re.search(r"\d+ steps; nothing was changed|linkhold is not installed", done.stdout)


def _command(wheel: Path) -> str:
    """Return what `linkhold` is on a host on which the wheel was installed."""
    return f'#!/bin/sh\nPYTHONPATH=$PWD/{wheel.name} exec /usr/bin/python3 -m linkhold "$@"\n'


def test_the_pages_show_how_to_install_and_to_remove() -> None:
    """Both ways are on a page."""
    assert any("--system" in line.text for line in LINES)
    assert any("--remove" in line.text for line in LINES)
