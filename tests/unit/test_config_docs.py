"""The printed default file and the table in docs/configuration.md say what the schema says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from linkhold.config import Settings, default_file, load, readme_table
from linkhold.config.schema import Kind, Option, options

PAGE = Path(__file__).parents[2] / "docs/configuration.md"


def every_option(section: Any = Settings) -> list[Option]:
    """Return all keys of all sections."""
    found = []
    for option in options(section):
        found.append(option)
        if option.item is not None and dataclasses.is_dataclass(option.item):
            found += every_option(option.item)
    return found


def test_default_file_is_the_defaults(tmp_path: Path) -> None:
    """The printed file can be installed as it stands and changes nothing."""
    path = tmp_path / "c.yaml"
    path.write_text(default_file())

    assert load(path) == Settings()


def test_examples_are_valid(tmp_path: Path) -> None:
    """The commented examples, once uncommented, are a valid configuration that has them all."""
    path = tmp_path / "c.yaml"
    path.write_text(re.sub(r"(?m)^#(?=  )", "", default_file()))
    got = load(path)

    assert list(got.links) == ["eth2"]
    assert [way.link for way in got.ways_out] == ["eth1"]
    assert [broker.tls is not None for broker in got.mqtt.fleet] == [True]
    assert [bond.members for bond in got.bonds.values()] == [("eth0", "eth1")]
    assert [bond.targets for bond in got.bonds.values()] == [("192.0.2.1",)]
    assert [uplink.link for uplink in got.uplinks] == ["bond0", "usb0"]


def test_default_file_fits_a_terminal() -> None:
    """No line of the default file is wrapped by an editor of 100 columns."""
    assert max(map(len, default_file().splitlines())) <= 100


@pytest.mark.parametrize("option", every_option(), ids=lambda option: option.name)
def test_every_key_is_explained(option: Option) -> None:
    """Each key has a help text on one line, and each number has both bounds."""
    assert option.help
    assert option.help.isprintable()
    assert f" {option.name}:" in default_file().replace("\n", "\n ")
    if option.kind in (Kind.INT, Kind.FLOAT, Kind.LIST, Kind.TEXTS, Kind.TABLE):
        assert "most" in option.metadata
    assert option.allowed or option.kind in (Kind.SECTION, Kind.OPTIONAL)


def test_table_has_every_key() -> None:
    """The table names each key by its full path, once."""
    rows = readme_table().splitlines()[2:]
    paths = [row.split("`")[1] for row in rows]

    assert len(set(paths)) == len(paths)
    assert len(paths) == sum(option.kind is not Kind.SECTION for option in every_option())
    assert {"site", "links.<name>.role", "mqtt.fleet[].tls.ca", "outbox.keep_days"} <= set(paths)
    assert "| `bonds.<name>.members` | required | its members, " in readme_table()
    assert "| `bonds.<name>.targets` | none | " in readme_table()
    assert all(row.count(" | ") == 2 for row in rows)


def test_the_page_has_the_table() -> None:
    """The page's block is the generated table, so that it cannot go stale."""
    text = PAGE.read_text()
    block = re.search(r"<!-- config:begin -->\n(.*?)<!-- config:end -->", text, re.DOTALL)

    assert block, "docs/configuration.md lacks <!-- config:begin --> ... <!-- config:end -->"
    assert block[1].strip() == readme_table().strip(), "put linkhold.config.readme_table() there"
