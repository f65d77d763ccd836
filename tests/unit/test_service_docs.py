"""The pages about service and brokers say what the files say, and every command exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from linkhold.cli import COMMANDS, main
from linkhold.install.files import RIGHTS
from linkhold.install.hosts import HOSTS

DOCS = Path(__file__).parents[2] / "docs"
SERVICE = (DOCS / "service.md").read_text(encoding="utf-8")
BROKERS = (DOCS / "brokers.md").read_text(encoding="utf-8")
CALLS = sorted(
    set(
        re.findall(
            r"(?m)(?:^    |`)(?:sudo )?(?:PYTHONPATH=\S+ python3 -m )?(linkhold [a-z][^`#\n]*)",
            SERVICE + BROKERS,
        )
    )
)


@pytest.mark.parametrize("call", CALLS)
def test_every_command_is_one(call: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each call of linkhold on the pages has arguments that its command knows."""
    _, command, *options = shlex.split(call)
    assert command in COMMANDS

    main([command, "--help"])
    known = capsys.readouterr().out
    assert all(option in known for option in options if option.startswith("--")), call


def test_the_table_of_hosts() -> None:
    """Each host of the table in the code is a row of the page, with its packages."""
    rows = [
        line for line in SERVICE.splitlines() if line.startswith(("| Debian", "| Ubuntu", "| RHEL"))
    ]

    assert len(rows) == len(HOSTS)
    for host, row in zip(HOSTS, rows, strict=True):
        assert host.version in row
        assert all(f"`{package}`" in row for package, _ in host.packages)
        assert all(f"`{python}`" in row for python in host.python)


def test_rights_are_explained() -> None:
    """Each right that can be allowed is on the page, as it is typed."""
    assert all(f"`linkhold setup --system --allow {right}`" in SERVICE for right in RIGHTS)


def test_limits_are_those_of_the_file() -> None:
    """Each limit that the page explains is a line of the recommended configuration."""
    lines = (DOCS / "brokers/linkhold.conf").read_text(encoding="utf-8").splitlines()
    table = BROKERS.partition("## The limits")[2].partition("## Other")[0]
    told = re.findall(r"`([a-z_]+)( \S+)?`", table)

    assert len(told) == 9
    for name, value in told:
        assert any(line.startswith(f"{name}{value}") for line in lines), name


def test_the_page_knows_every_client_of_the_acl() -> None:
    """Each user of the ACL file is a row of the page."""
    acl = (DOCS / "brokers/linkhold.acl").read_text(encoding="utf-8")
    for user in re.findall(r"(?m)^user (\S+)$", acl):
        assert f"`{user.partition('-rack')[0]}" in BROKERS
