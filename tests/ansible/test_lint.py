"""The collection as ansible-lint's profile for production and Ansible's own parsers see it."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import yaml

from support.rollout import BIN, environment

if TYPE_CHECKING:
    from pathlib import Path


def test_ansible_lint(collections: Path) -> None:
    """ansible-lint finds nothing at profile production, in what a release installs."""
    place = collections / "ansible_collections/linkhold/linkhold"
    command = [str(BIN / "ansible-lint"), "--offline", "--strict", "--profile=production"]
    done = subprocess.run(
        [*command, "--nocolor", "--project-dir", str(place)],
        capture_output=True,
        text=True,
        cwd=place,
        env={**environment(collections, collections), "NO_COLOR": "1"},
        check=False,
        timeout=180,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"in (\d+) files processed", done.stderr)
    assert told, done.stderr
    assert int(told[1]) > 20, "it has not seen the collection"


def test_documentation_is_read(collections: Path) -> None:
    """ansible-doc shows every module of the collection and the role's arguments."""
    names = ["node_info", "service", "gate"]
    command = [str(BIN / "ansible-doc"), "--json"]
    where = environment(collections, collections)
    modules = subprocess.run(
        [*command, *(f"linkhold.linkhold.{name}" for name in names)],
        capture_output=True,
        check=True,
        env=where,
    )
    role = subprocess.run(
        [*command, "-t", "role", "linkhold.linkhold.linkhold"],
        capture_output=True,
        check=True,
        env=where,
    )

    assert len(yaml.safe_load(modules.stdout)) == len(names)
    entries = yaml.safe_load(role.stdout)["linkhold.linkhold.linkhold"]["entry_points"]
    assert set(entries) == {"main", "preflight", "uninstall"}
