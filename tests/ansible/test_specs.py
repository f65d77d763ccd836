"""What the collection says about itself, the agent and the distributions is the same everywhere."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

import linkhold
from linkhold.config import load
from linkhold.config.schema import Kind, options, plain
from linkhold.config.settings import Settings
from linkhold.install.files import RIGHTS
from linkhold.install.hosts import HOSTS, LIKE

REPO = Path(__file__).parents[2]
COLLECTION = REPO / "ansible"
ROLE = COLLECTION / "roles/linkhold"
PAGE = (REPO / "docs/rollout.md").read_text(encoding="utf-8")
TYPES = {
    Kind.TEXT: "str",
    Kind.CHOICE: "str",
    Kind.BOOL: "bool",
    Kind.TABLE: "dict",
    Kind.SECTION: "dict",
    Kind.LIST: "list",
}
EMPTY: dict[str, Any] = {"dict": {}, "list": []}


def read(path: Path) -> Any:
    """Return a YAML file of the collection."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


DEFAULTS = read(ROLE / "defaults/main.yml")
SPECS = read(ROLE / "meta/argument_specs.yml")["argument_specs"]
VARS = read(ROLE / "vars/main.yml")
KEYS = options(Settings)


def test_specs_are_the_defaults() -> None:
    """The role's arguments are its defaults, in their order and with their values."""
    told = {name: spec["default"] for name, spec in SPECS["main"]["options"].items()}

    assert told == DEFAULTS
    assert list(told) == list(DEFAULTS)


@pytest.mark.parametrize("entry", ["preflight", "uninstall"])
def test_other_entries_are_parts_of_the_first(entry: str) -> None:
    """What the other entry points take, the whole role takes in the same way."""
    whole = SPECS["main"]["options"]

    assert all(whole[name] == spec for name, spec in SPECS[entry]["options"].items())


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_keys_of_the_agent_are_variables(key: Any) -> None:
    """Each key of the configuration is a variable with its type, words, default and meaning."""
    spec = SPECS["main"]["options"][f"linkhold_{key.name}"]
    kind = TYPES[key.kind]

    assert spec["type"] == kind
    assert spec["description"] == key.help
    default = plain(key.default) if kind == "str" else key.default
    assert spec["default"] == EMPTY.get(kind, default)
    words = [choice.value for choice in key.item] if key.kind is Kind.CHOICE else None
    assert spec.get("choices") == words


def test_every_key_is_written() -> None:
    """The file of a node can hold every key of the agent, each from the variable of its name.

    A switch that comes with ``-e NAME=true`` is a text, which the agent would refuse.
    """
    filters = {key.name: " | bool" * (key.kind is Kind.BOOL) for key in KEYS}
    wanted = {key.name: f"{{{{ linkhold_{key.name}{filters[key.name]} }}}}" for key in KEYS}

    assert VARS["_linkhold_settings"] == wanted


def test_every_variable_has_a_use() -> None:
    """Each variable is read somewhere in tasks, templates or vars."""
    files = [*ROLE.glob("tasks/*.yml"), *ROLE.glob("templates/*"), *ROLE.glob("vars/*.yml")]
    text = "".join(path.read_text(encoding="utf-8") for path in files)

    assert [name for name in DEFAULTS if name not in text] == []


def test_rights_are_the_agents() -> None:
    """The rights that may be allowed are those of `linkhold setup --allow`."""
    assert SPECS["main"]["options"]["linkhold_allow"]["choices"] == list(RIGHTS)


def test_hosts_are_the_agents() -> None:
    """The table of distributions is that of `linkhold setup`."""
    table = {
        f"{host.id} {host.version}": {"python": list(host.python), "packages": dict(host.packages)}
        for host in HOSTS
    }

    assert VARS["_linkhold_hosts"] == table
    assert VARS["_linkhold_like"] == LIKE


def test_version_is_linkholds() -> None:
    """Collection and linkhold are released under one version."""
    assert read(COLLECTION / "galaxy.yml")["version"] == linkhold.__version__


def written(tmp_path: Path, **changed: Any) -> Settings:
    """Return the settings that a node gets for these variables, by the role's own template."""
    names = {key.name: {**DEFAULTS, **changed}[f"linkhold_{key.name}"] for key in KEYS}
    environment = Environment(trim_blocks=True)  # as Ansible's own
    environment.filters["to_nice_yaml"] = yaml.safe_dump
    source = (ROLE / "templates/linkhold.yaml.j2").read_text(encoding="utf-8")
    path = tmp_path / "linkhold.yaml"
    path.write_text(environment.from_string(source).render(_linkhold_settings=names))
    return load(path)


def test_defaults_are_the_agents(tmp_path: Path) -> None:
    """A role without variables writes a file that says what an empty one does."""
    assert written(tmp_path) == Settings()


def test_the_example_is_right(tmp_path: Path) -> None:
    """The variables of the example inventory make a configuration that the agent takes."""
    folder = COLLECTION / "examples/inventory/group_vars"
    changed = {**read(folder / "linkhold.yml"), **read(folder / "rack_b.yml")}
    assert set(changed) <= set(DEFAULTS)

    found = written(tmp_path, **changed)

    assert [broker.host for broker in found.mqtt.fleet] == [
        "broker-a.example.org",
        "broker-b.example.org",
    ]
    assert list(found.bonds) == ["bond0"]


def test_a_false_switch_is_written(tmp_path: Path) -> None:
    """A switch below a section that is false stays false, and is not taken for left out."""
    found = written(tmp_path, linkhold_mqtt={"local": False}, linkhold_restore_on_stop=True)

    assert (found.mqtt.local, found.restore_on_stop) == (False, True)
    assert dataclasses.replace(found, mqtt=Settings().mqtt, restore_on_stop=False) == Settings()


def test_the_page_names_what_there_is() -> None:
    """Each variable and playbook on the page exists."""
    others = {"linkhold_canary", "linkhold_serial", "linkhold_configure"}
    names = set(re.findall(r"linkhold_[a-z_]+", PAGE)) - others
    books = set(re.findall(r"ansible-playbook \S+ \S+ linkhold\.linkhold\.([a-z]+)", PAGE))

    assert names <= set(DEFAULTS)
    assert books == {path.stem for path in (COLLECTION / "playbooks").glob("*.yml")}
