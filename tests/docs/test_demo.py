"""The first thing that a newcomer sees: `make demo`."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest

from docs.pages import ROOT
from support import netns, running

DEMO_S = 60
TOLD = (
    "pulls the cable",
    "network.down",
    "training on hold: network down",
    "plugs the cable in",
    "held ",
    "done: the run was held, not killed",
)


def test_the_demo_shows_what_the_readme_says() -> None:
    """A cable is pulled under a training loop: it holds, goes on and ends well, within a minute."""
    if netns.missing() or running.missing():
        pytest.skip(netns.missing() or running.missing())
    began_s = time.monotonic()

    done = subprocess.run(
        [sys.executable, ROOT / "tests/demo/run.py"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began_s < DEMO_S
    assert re.search(".*".join(map(re.escape, TOLD)), done.stdout, re.DOTALL), done.stdout
