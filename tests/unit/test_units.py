"""The shipped units: silent to systemd-analyze, closed enough, and with a reason where open."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parents[2] / "systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
DROP_INS = sorted((SYSTEMD / "drop-ins").glob("*.conf"))
SERVICES = ["linkhold.service", "linkhold-broker.service", "linkhold-relay.service"]
needs_analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed"
)
STRICTEST = {"yes", "strict", "closed", "private", "native", "invisible", "pid", "", "any"}


@pytest.fixture
def placed(tmp_path: Path) -> Path:
    """The units in a folder, with a program that exists in place of the installed one."""
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace(
            "/opt/linkhold/current/bin/python", "/bin/true"
        )
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    return tmp_path


@needs_analyze
@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_verify_is_silent(placed: Path, unit: str) -> None:
    """Every directive is known to systemd, whose exit code hides a word on stderr about us."""
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(placed / unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    about_us = [line for line in done.stderr.splitlines() if "linkhold" in line]

    assert (done.returncode, about_us) == (0, [])


@needs_analyze
def test_verify_hears_a_misspelt_directive(placed: Path) -> None:
    """The test above can fail: a misspelt directive is a word on stderr that names our file."""
    unit = placed / "linkhold.service"
    unit.write_text(unit.read_text().replace("WatchdogSec", "WatchdogSecs"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "linkhold.service" in done.stderr


@needs_analyze
@pytest.mark.parametrize(
    ("unit", "most"),
    [
        ("linkhold.service", 30),
        ("linkhold-broker.service", 20),
        ("linkhold-relay.service", 20),
    ],
)
def test_exposure(placed: Path, unit: str, most: int) -> None:
    """The agent's exposure is 3.0 at most, the broker's and the relay's 2.0."""
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={most}"]
    done = subprocess.run(
        [*command, str(placed / unit)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.parametrize("unit", SERVICES)
def test_every_open_directive_has_a_reason(unit: str) -> None:
    """A directive of the sandbox that is not at its strictest stands in a block with a comment."""
    text = (SYSTEMD / unit).read_text(encoding="utf-8")
    pattern = r"(Private|Protect|Restrict|Lock|Memory[A-Z]|NoNew|Capab|SystemCall|Device|ReadWrite)"
    commented = False
    for line in text.splitlines():
        if line.startswith("#"):
            commented = True
        elif not line:
            commented = False
        elif re.match(pattern, line) and line.partition("=")[2] not in STRICTEST:
            assert commented, f"{unit}: {line} has no reason"


@needs_analyze
@pytest.mark.parametrize("unit", SERVICES)
def test_what_is_left_open_is_named(placed: Path, unit: str) -> None:
    """A directive that a unit leaves out, and that would close something, is in a comment of it."""
    command = ["systemd-analyze", "security", "--offline=true", "--json=short"]
    done = subprocess.run(
        [*command, str(placed / unit)], capture_output=True, text=True, check=True
    )
    text = (placed / unit).read_text(encoding="utf-8")
    opened = {
        row["name"].partition("=")[0]
        for row in json.loads(done.stdout)
        if row["set"] is False and float(row["exposure"] or 0) > 0
    }

    # The first is for services with a root of their own; the second names what ProtectClock adds.
    assert [name for name in opened - {"RootDirectory", "DeviceAllow"} if name not in text] == []


@pytest.mark.parametrize("unit", SERVICES)
def test_waits_for_no_network(unit: str) -> None:
    """No service is ordered after a network, or wants one."""
    text = (SYSTEMD / unit).read_text(encoding="utf-8")
    ordering = re.findall(r"(?m)^(?:After|Wants|Requires|BindsTo)=(.*)$", text)

    assert not re.search("network|online|nss-lookup", " ".join(ordering))


@needs_analyze
@pytest.mark.parametrize("drop_in", [path.name for path in DROP_INS])
def test_drop_ins(placed: Path, drop_in: str) -> None:
    """Each drop-in is known to systemd as well, and says which option it is for."""
    folder = placed / "linkhold.service.d"
    folder.mkdir()
    text = (SYSTEMD / "drop-ins" / drop_in).read_text(encoding="utf-8")
    (folder / drop_in).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(placed / "linkhold.service")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert [line for line in done.stderr.splitlines() if "linkhold" in line] == []
    assert text.startswith("# For `keepalive.")
