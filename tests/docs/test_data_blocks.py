"""Files and messages on the pages are taken by the programs that read them in earnest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from docs.pages import ALL_BLOCKS, PAGES, ROOT, Block, Line, spans
from docs.place import Host
from linkhold.config.relay import RelaySettings
from linkhold.config.schema import options
from linkhold.config.settings import Settings
from linkhold.legs.fleet_diagnose import parse_diagnose
from linkhold.legs.fleet_replay import parse_replay
from linkhold.wire import parse_event
from linkhold.wire.maintenance import parse_maintenance_request
from support.netns import Namespace, missing
from support.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NETWORKD = Path("/lib/systemd/systemd-networkd")
NETWORK_MANAGER = Path("/usr/sbin/NetworkManager")
ROLE = ROOT / "ansible/roles/linkhold"


def of_kind(kind: str) -> list[Block]:
    """Return all blocks of a kind."""
    return [block for block in ALL_BLOCKS if block.kind == kind]


def named(block: Block | Line) -> str:
    """Return where it stands, as the name of a test."""
    return block.name


@pytest.fixture(scope="module")
def bare() -> Iterator[Host]:
    """A host in which nothing runs."""
    if missing():
        pytest.skip(missing())
    with Place() as folder, Namespace() as ns:
        made = Host(ns, folder, "node")
        yield made
        made.close()


# YAML.


def keys_of(section: Any) -> set[str]:
    """Return the keys of a configuration at its top."""
    return {option.name for option in options(section)}


@pytest.mark.parametrize("block", of_kind("yaml"), ids=named)
def test_yaml(host: Host, block: Block) -> None:
    """A configuration is taken by the command that checks it; of Ansible's, the role knows all."""
    top = yaml.safe_load(block.text)
    for section, command in ((Settings, "check"), (RelaySettings, "relay --check --config")):
        if isinstance(top, dict) and set(top) <= keys_of(section):
            name = f"{host.home}/page.yaml"
            host.write({name: block.text}, 0o644)
            done = host.run(f"linkhold {command} {name}")
            assert (done.returncode, done.stdout) == (0, "configuration OK\n"), done.stdout
            return
    ours = set(re.findall(r"\blinkhold_\w+(?=:)", block.text))
    specs = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]
    assert ours or "ansible" in block.text, "neither ours nor Ansible's: no rule covers it"
    assert ours <= set(specs["main"]["options"])


# INI.


@pytest.mark.parametrize("block", of_kind("ini"), ids=named)
def test_ini(bare: Host, block: Block) -> None:
    """networkd, NetworkManager or systemd reads the file and finds no key that it does not know."""
    sections = set(re.findall(r"(?m)^\[(\w+)\]$", block.text))
    for known, check in INI:
        if sections <= known:
            check(bare, block.text)
            return
    raise AssertionError(f"no rule covers a file with {sections}")


def networkd(host: Host, text: str) -> None:
    """Have networkd read it, as what it is by its keys."""
    if not NETWORKD.exists():
        pytest.skip("systemd-networkd is not installed")
    folder, ending = "/run/systemd/network", "netdev" if "[NetDev]" in text else "network"
    if "ManageForeign" in text:
        folder, ending = "/run/systemd/networkd.conf.d", "conf"
    host.write({f"{folder}/50-page.{ending}": text}, 0o644)
    environment = "SYSTEMD_LOG_LEVEL=debug SYSTEMD_LOG_TARGET=console"
    said = host.run(f"{environment} timeout -s INT 1 {NETWORKD} || true").stderr
    host.path(f"{folder}/50-page.{ending}").unlink()
    assert "Enumeration completed" in said
    wrong = [line for line in said.splitlines() if "50-page" in line and "ignoring" in line]
    # What a file needs of the others stands beside it on the page.
    assert [line for line in wrong if "[Match]" not in line and "bond0 NetDev" not in line] == []


def keyfile(host: Host, text: str) -> None:
    """Have NetworkManager read a profile, and write it again with every key of it."""
    if not NETWORK_MANAGER.exists():
        pytest.skip("NetworkManager is not installed")
    whole = re.sub(r"=<\w+>", "=9a2b8a0e-1111-4222-8333-1234567890ab", text)
    host.write({"/run/profile": whole})
    done = host.run("nmcli --offline connection modify connection.id page </run/profile")
    assert done.returncode == 0, done.stderr
    for key in re.findall(r"(?m)^([\w-]+)=", text):
        assert re.search(rf"(?m)^{key}=", done.stdout), key


def manager_file(host: Host, text: str) -> None:
    """Have NetworkManager read a part of its configuration; of a state file it knows the keys."""
    if not NETWORK_MANAGER.exists():
        pytest.skip("NetworkManager is not installed")
    if "connection-uuid" in text:
        program = NETWORK_MANAGER.read_bytes()
        for key in re.findall(r"(?m)^([\w-]+)=", text):
            assert key.encode() in program
        return
    host.write({"/run/page.d/page.conf": text}, 0o644)
    done = host.run(f"{NETWORK_MANAGER} --config-dir /run/page.d --print-config")
    assert done.returncode == 0, done.stderr
    assert "unknown key" not in done.stdout


def unit(host: Host, text: str) -> None:
    """Have systemd read it as a drop-in of the agent's unit."""
    host.write({"/run/u/linkhold.service": (ROOT / "systemd/linkhold.service").read_text()}, 0o644)
    host.write({"/run/u/linkhold.service.d/page.conf": text}, 0o644)
    done = host.run("systemd-analyze verify /run/u/linkhold.service 2>&1 || true")
    assert "page.conf" not in done.stdout


def logind(host: Host, text: str) -> None:
    """Compare it with the drop-in that linkhold installs."""
    del host
    shipped = "\n".join(one.read_text() for one in (ROOT / "systemd").rglob("*logind*"))
    assert set(re.findall(r"(?m)^\w+=", text)) <= set(re.findall(r"(?m)^\w+=", shipped))


INI: tuple[tuple[set[str], Callable[[Host, str], None]], ...] = (
    ({"Match", "Link", "Network", "NetDev", "Bond", "DHCPv4", "DHCPv6", "Address"}, networkd),
    ({"connection", "ethernet", "bond", "ipv4", "ipv6"}, keyfile),
    ({"keyfile", "device", "main"}, manager_file),
    ({"Unit", "Service", "Install"}, unit),
    ({"Login"}, logind),
)
"""Whose file it is, by its sections."""


# JSON.


def audit_document(host: Host, document: dict[str, Any]) -> None:
    """Compare the fields of the audit's document with those of a real one."""
    real = json.loads(host.run("linkhold keepalive audit --json").stdout)
    assert set(document) == set(real)
    assert set(document["summary"]) == set(real["summary"])
    assert set(document["connections"][0]) == set(real["connections"][0])


def explained(host: Host, document: dict[str, Any]) -> None:
    """Have the command explain a recorded payload."""
    done = host.run("linkhold explain payload --json", stdin=json.dumps(document) + "\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def _bytes(parse: Callable[[bytes], object]) -> Callable[[Host, dict[str, Any]], None]:
    def check(host: Host, document: dict[str, Any]) -> None:
        del host
        parse(json.dumps(document).encode())

    return check


JSON: tuple[tuple[set[str], Callable[[Host, dict[str, Any]], None]], ...] = (
    ({"connections", "summary"}, audit_document),
    ({"kind", "body"}, explained),
    ({"id", "since"}, _bytes(parse_diagnose)),
    ({"id"}, _bytes(parse_diagnose)),
    ({"id", "for_s"}, _bytes(parse_maintenance_request)),
    ({"request"}, _bytes(parse_replay)),
    ({"specversion"}, _bytes(parse_event)),
)
"""Who reads a document, by the fields that it has at least; the first that fits with most."""
MESSAGES = [
    span for page in PAGES for span in spans(page) if re.match(r'\{"\w+": ', span.text)
] + of_kind("json")


@pytest.mark.parametrize("message", MESSAGES, ids=named)
def test_json(host: Host, message: Block | Line) -> None:
    """A message or document is taken by its reader."""
    for document in documents_in(message.text):
        if set(document) == {"error"}:
            assert set(document["error"]) == {"text"}
            continue
        fitting = [one for one in JSON if one[0] <= set(document)]
        assert fitting, f"no rule covers a document with {sorted(document)}"
        max(fitting, key=lambda one: len(one[0]))[1](host, document)


def documents_in(text: str) -> list[dict[str, Any]]:
    """Return what is in a block, one document or one in each line; ``...`` is some text."""
    whole = re.sub(r': (?:"\.\.\."|\.\.\.)', ': "x"', text)
    try:
        return [json.loads(whole)]
    except ValueError:
        return [json.loads(line) for line in whole.splitlines()]


def test_the_files_beside_the_page_are_those_that_are_tried() -> None:
    """Each file below docs that is no page is named by a page; tests/broker tries the brokers'."""
    pages = "".join(page.read_text() for page in PAGES)
    for file in (ROOT / "docs").rglob("*"):
        if file.is_file() and file.suffix != ".md":
            assert str(file.relative_to(ROOT / "docs")) in pages
