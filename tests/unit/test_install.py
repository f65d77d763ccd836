"""`linkhold setup`: its tables, its steps, what it refuses, and the pins of the service's venv."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from linkhold.install.files import (
    PARTS,
    RELAY,
    RIGHTS,
    UNITS,
    HostFile,
    host_files,
    lock_text,
)
from linkhold.install.hosts import HOSTS, Host, host_of, os_release
from linkhold.install.plan import RECORDS, Target, removal
from linkhold.install.steps import Step, below, perform, point, remove, write
from linkhold.model import HostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.called import Outcome

REPO = Path(__file__).parents[2]
KNOWN = [
    ('ID=debian\nVERSION_ID="12"\n', "debian", "12"),
    ("ID=ubuntu\nVERSION_ID='22.04'\n", "ubuntu", "22.04"),
    ('ID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\n', "ubuntu", "24.04"),
    ('ID="rhel"\nVERSION_ID="9.4"\n', "rhel", "9"),
    ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n', "rhel", "9"),
]


@pytest.mark.parametrize(("release", "id_", "version"), KNOWN)
def test_hosts_are_known(release: str, id_: str, version: str) -> None:
    """Each supported distribution is found by its os-release, rebuilds and minor versions too."""
    host = host_of(release)

    assert (host.id, host.version) == (id_, version)


@pytest.mark.parametrize(
    "release", ["", "ID=arch\n", "ID=debian\nVERSION_ID=11\n", "ID=rhel\nVERSION_ID=90\n"]
)
def test_other_hosts_are_refused(release: str) -> None:
    """A host that nobody tried is refused with what is known."""
    with pytest.raises(HostError, match=r"knows debian 12, ubuntu 22\.04, ubuntu 24\.04, rhel 9"):
        host_of(release)


@given(st.text())
def test_any_os_release_is_read(text: str) -> None:
    """Whatever the file holds, it is read to pairs of text."""
    assert all(isinstance(value, str) for value in os_release(text).values())


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: f"{host.id}{host.version}")
def test_table(host: Host) -> None:
    """Every entry names an interpreter from 3.10 on, and absolute paths."""
    assert all(int(name.removeprefix("python3.")) >= 10 for name in host.python)
    assert all(path.startswith("/") for _, paths in host.packages for path in paths.split("|"))


# Steps.


def test_steps_are_done_once(tmp_path: Path) -> None:
    """A step that is done already is neither told nor done again; a dry run does none."""
    file = HostFile("/etc/a/b", b"x", 0o600)
    steps = [write(tmp_path, file), point(tmp_path, "/etc/a/c", "b")]
    told: list[str] = []

    assert perform(steps, told.append, dry_run=True) == 2
    assert not below(tmp_path, "/etc").exists()
    assert perform(steps, told.append, dry_run=False) == 2
    assert perform(steps, told.append, dry_run=False) == 0
    assert told == [
        "would write /etc/a/b",
        "would let /etc/a/c lead to b",
        "write /etc/a/b",
        "let /etc/a/c lead to b",
    ]
    assert below(tmp_path, "/etc/a/b").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["content", "mode", "link", "gone"])
def test_differences_are_mended(tmp_path: Path, damage: str) -> None:
    """Other content, another mode or a symbolic link in its place: the file is written anew."""
    step, path = write(tmp_path, HostFile("/x", b"text")), tmp_path / "x"
    step.do()
    assert step.done()
    if damage == "content":
        path.write_bytes(b"other")
    elif damage == "mode":
        path.chmod(0o666)
    else:
        path.unlink()
    if damage == "link":
        (tmp_path / "y").write_bytes(b"text")
        path.symlink_to("y")

    assert not step.done()
    step.do()
    assert (path.read_bytes(), path.is_symlink()) == (b"text", False)


def test_remove(tmp_path: Path) -> None:
    """Files, folders and dangling links go; what is not there is done."""
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("nowhere")
    steps: list[Step] = [remove(tmp_path, name) for name in ("/folder", "/link", "/none")]

    assert perform(steps, lambda _: None, dry_run=False) == 2
    assert list(tmp_path.iterdir()) == []


# What is shipped.


def test_host_files() -> None:
    """Every unit is installed; a drop-in only where its right was asked for."""
    plain, open_ = host_files(), host_files(RIGHTS)

    assert {Path(file.path).name for file in plain} >= set(UNITS)
    assert [file.path for file in open_ if file not in plain] == [
        f"/etc/systemd/system/linkhold.service.d/{right}.conf" for right in RIGHTS
    ]


def test_parts_share_nothing_but_the_command() -> None:
    """A host of the relay gets nothing of the agent's; every part's files of accounts are there."""
    agent, relay = host_files(RIGHTS), host_files((), (RELAY,))

    assert {file.path for file in agent} & {file.path for file in relay} == {
        "/usr/local/bin/linkhold"
    }
    for part in PARTS:
        paths = [file.path for file in host_files((), (part,))]
        assert [Path(path).parent.name for path in part.accounts] == ["sysusers.d", "tmpfiles.d"]
        assert set(part.accounts) < set(paths)


def test_units_call_what_is_installed() -> None:
    """Each program of ours that a unit names is the installed interpreter, isolated (-I)."""
    for unit in (*UNITS, *RELAY.units):
        text = (REPO / "systemd" / unit).read_text(encoding="utf-8")
        calls = re.findall(r"(?m)^Exec\w+=[+]?(\S+) (.*)$", text)
        ours = [rest for program, rest in calls if program.startswith("/opt/linkhold")]
        assert ours
        assert all(rest.startswith("-I -m linkhold") for rest in ours)


def test_setup_needs_nothing_installed() -> None:
    """A fresh interpreter imports no package for `setup`: it runs before there are any."""
    code = (
        "import sys, linkhold.cli.setup; "
        "print([m for m in sys.modules if m in {'yaml', 'paho', 'pyroute2', 'rich', 'tenacity'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


# The pins.


def pins() -> dict[str, tuple[str, int]]:
    """Return version and number of hashes of each pinned package."""
    found = {}
    for entry in re.split(r"(?m)^(?=[a-z])", lock_text().decode())[1:]:
        name, version = re.match(r"([a-z0-9-]+)==(\S+)", entry).groups()  # type: ignore[union-attr]
        found[name] = (version, len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)))
    return found


def normal(name: str) -> str:
    """Return a package's name as the pins spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_pins_are_what_the_agent_needs() -> None:
    """Every dependency of linkhold[agent], and of those in turn, is pinned within its bounds.

    And nothing else is. `make lock` makes the file anew.
    """
    wanted = {}
    waiting = [line for line in metadata.requires("linkhold") or [] if _applies(Requirement(line))]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = normal(requirement.name)
        version = pins()[name][0]
        assert requirement.specifier.contains(version), f"{requirement}: pinned {version}"
        if name not in wanted:
            wanted[name] = version
            needs = metadata.requires(requirement.name) or []
            waiting += [line for line in needs if _applies(Requirement(line))]

    assert wanted == {name: version for name, (version, _) in pins().items()}


def _applies(requirement: Requirement) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", "agent"))


def test_every_pin_has_hashes() -> None:
    """Each package has the hash of at least its wheel and its source."""
    assert all(hashes >= 2 for _, hashes in pins().values())


# Refusals.


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that is a Debian 12 without a package."""
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/os-release").write_text(KNOWN[0][0])
    return tmp_path / "root"


def test_needs_root(call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user is told at once, before anything is looked at."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    for what in ("--system", "--remove"):
        assert call("setup", what) == (
            1,
            "",
            "linkhold: setup changes /opt, /etc and the units of systemd: run it as root\n",
        )


def test_missing_packages(call: Callable[..., Outcome], root: Path) -> None:
    """All missing packages are named, with the command that installs them."""
    code, out, err = call("setup", "--system", "--root", str(root), "--dry-run")

    assert (code, out) == (1, "")
    wanted = "apt-get install --no-install-recommends python3.11-venv mosquitto"
    assert f"run: {wanted}" in err
    assert "port 1883" in err


def test_the_relay_needs_no_broker(call: Callable[..., Outcome], root: Path) -> None:
    """A host of the relay alone gets neither mosquitto nor a unit of the agent."""
    code, out, err = call("setup", "--system", "--relay", "--root", str(root), "--dry-run")
    assert (code, out) == (1, "")
    assert "missing: python3.11-venv;" in err
    assert "1883" not in err

    ensurepip = root / "usr/lib/python3.11/ensurepip/__init__.py"
    ensurepip.parent.mkdir(parents=True)
    ensurepip.touch()
    with zipfile.ZipFile(root / "a.whl", "w"):
        pass
    dry = ("--dry-run", "--root", str(root), "--wheel", str(root / "a.whl"))
    python = ("--python", sys.executable)
    code, out, err = call("setup", "--system", "--relay", *dry, *python)
    assert (code, err) == (0, "")
    assert "would enable linkhold-relay.service\n" in out
    assert "linkhold.service" not in out
    assert "would write /etc/linkhold/relay.yaml" in out


@pytest.mark.parametrize("option", [("--allow", "cover"), ("--remove", "--restore-host")])
def test_the_relay_has_no_rights(call: Callable[..., Outcome], option: tuple[str, ...]) -> None:
    """What is about the agent is refused for the relay, with what to leave out."""
    what = () if "--remove" in option else ("--system",)

    code, _, err = call("setup", *what, "--relay", *option)

    assert code == 64
    assert err.endswith("are about the agent: leave out --relay\n")


def test_which_linkhold(call: Callable[..., Outcome], root: Path) -> None:
    """From a checkout a wheel must be named, and it must be one."""
    for name in ("usr/sbin/mosquitto", "usr/lib/python3.11/ensurepip/__init__.py"):
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    setup = ("setup", "--system", "--dry-run", "--python", sys.executable, "--root", str(root))

    assert "name its wheel with --wheel" in call(*setup)[2]
    assert "no such wheel" in call(*setup, "--wheel", "/nowhere.whl")[2]
    with zipfile.ZipFile(root / "a.whl", "w"):
        pass
    code, out, _ = call(*setup, "--wheel", str(root / "a.whl"))
    assert code == 0
    assert out.splitlines()[-1].endswith("steps; nothing was changed")
    assert not (root / "opt").exists()


@pytest.mark.parametrize(
    ("record", "lost"),
    [
        ({"persist": "linkhold"}, True),
        ({}, True),
        ({"persist": "networkd"}, False),
        ({"persist": "none"}, False),
    ],
)
def test_removal_loses_no_bond(tmp_path: Path, record: dict[str, str], lost: bool) -> None:  # noqa: FBT001
    """A bond that only linkhold makes at boot forbids removal until it is given back."""
    folder = below(tmp_path, RECORDS)
    folder.mkdir(parents=True)
    (folder / "committed-bond0.json").write_text(json.dumps(record))

    if lost:
        with pytest.raises(HostError, match="bond0: made by linkhold at each boot"):
            removal(Target(tmp_path, lives=False), restore_host=False)
    else:
        assert removal(Target(tmp_path, lives=False), restore_host=False)


def test_a_damaged_record_counts_as_a_bond(tmp_path: Path) -> None:
    """Where a record cannot be read, nobody knows that the bond is safe."""
    folder = below(tmp_path, RECORDS)
    folder.mkdir(parents=True)
    (folder / "committed-bond0.json").write_text("[")

    with pytest.raises(HostError, match="bond0"):
        removal(Target(tmp_path, lives=False), restore_host=False)
