"""`linkhold setup` in bad company: cut short, twice at once, amid a change, a strict umask."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import linkhold
from linkhold.install import plan
from linkhold.install.files import AGENT, CURRENT, RELAY, UNITS, HostFile, Part
from linkhold.install.later import waiting
from linkhold.install.plan import RECORDS, Target, install, removal
from linkhold.install.steps import Step, below, perform, write
from linkhold.install.venv import Venv
from linkhold.model import HostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.called import Outcome


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Debian 12 with the packages; a venv is a folder there, whose linkhold says nothing."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')
    for name in ("usr/sbin/mosquitto", "usr/lib/python3.11/ensurepip/__init__.py"):
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    with zipfile.ZipFile(root / "a.whl", "w"):
        pass

    def make(made: Venv) -> None:
        place = below(made.root, made.folder)
        (place / "bin").mkdir(parents=True)
        (place / "bin/python").symlink_to("/bin/true")
        (place / "complete").touch()

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Venv, "_make", make)
    monkeypatch.setattr(
        plan, "_enable", lambda *_, **__: Step("enable", lambda: True, lambda: None)
    )
    return root


def words(root: Path, what: str = "--system") -> tuple[str, ...]:
    """Return the words of a setup in the folder ``root``."""
    wheel = ("--wheel", str(root / "a.whl")) if what == "--system" else ()
    return ("setup", what, "--root", str(root), *wheel)


def test_a_hardened_umask_shuts_nobody_out(call: Callable[..., Outcome], whole: Path) -> None:
    """Whatever root's umask, the units' users reach the venv, and everybody the command."""
    before = os.umask(0o077)
    try:
        code, _, err = call(*words(whole))
    finally:
        os.umask(before)

    assert (code, err) == (0, "")
    for name in ("opt/linkhold", "etc/linkhold", "etc/systemd/system", "usr/local/bin/linkhold"):
        assert (whole / name).stat().st_mode & 0o777 == 0o755, name


def test_one_setup_at_a_time(call: Callable[..., Outcome], whole: Path) -> None:
    """The second is refused, a look is not; and nobody but root can stand in the way."""
    assert call(*words(whole))[0] == 0
    lock = whole / "run/linkhold-setup.lock"
    assert lock.stat().st_mode & 0o777 == 0o600
    descriptor = os.open(lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        code, _, err = call(*words(whole))
        look = call(*words(whole), "--dry-run")[0]
    finally:
        os.close(descriptor)

    assert (code, look) == (1, 0)
    assert err == "linkhold: another linkhold setup is at work here; wait until it has ended\n"
    assert call(*words(whole))[0] == 0


def test_what_was_never_finished_goes(call: Callable[..., Outcome], whole: Path) -> None:
    """A venv that a run left incomplete is made anew by its own wheel, removed by another's."""
    call(*words(whole))
    stale = whole / "opt/linkhold/0.0.1-0123456789"
    stale.mkdir()

    assert "remove /opt/linkhold/0.0.1-0123456789\n" in call(*words(whole))[1]
    assert not stale.exists()
    assert call(*words(whole))[1] == "nothing to do: linkhold is as it should be\n"


def test_a_configuration_that_the_new_version_refuses(
    call: Callable[..., Outcome], whole: Path
) -> None:
    """It is not put in use, and the message says how to see what is wrong."""
    call(*words(whole))
    with zipfile.ZipFile(whole / "a.whl", "a") as wheel:
        wheel.comment = b"newer"
    current = (whole / "opt/linkhold/current").readlink()

    def make(made: Venv) -> None:
        place = below(made.root, made.folder)
        (place / "bin").mkdir(parents=True)
        (place / "bin/python").symlink_to("/bin/false")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Venv, "_make", make)
        code, _, err = call(*words(whole))

    assert code == 1
    assert re.search(r"refuses /etc/linkhold/linkhold\.yaml, .* check \S+linkhold\.yaml\n$", err), (
        err
    )
    assert (whole / "opt/linkhold/current").readlink() == current


@pytest.mark.parametrize("written", range(len(UNITS)))
def test_removal_after_a_run_that_was_cut_short(tmp_path: Path, written: int) -> None:
    """It stops the units that were written: for one that was not, systemctl refuses them all."""
    folder = below(tmp_path, "/etc/systemd/system")
    folder.mkdir(parents=True)
    for unit in UNITS[:written]:
        (folder / unit).touch()
    steps = removal(Target(tmp_path, lives=True), restore_host=False)
    asked = [step.text.split()[5:] for step in steps if "disable" in step.text and not step.done()]

    assert asked == ([list(UNITS[:written])] if written else [])


@pytest.mark.parametrize(("state", "refused"), [("waiting", True), ("committed", False)])
def test_nothing_is_removed_under_a_guard(tmp_path: Path, state: str, refused: bool) -> None:  # noqa: FBT001
    """What would undo a change of bonds runs from the venv: it stays until the change is over."""
    folder = below(tmp_path, RECORDS)
    folder.mkdir(parents=True)
    (folder / "journal.json").write_text(json.dumps({"state": state}))
    current = below(tmp_path, CURRENT)
    current.parent.mkdir(parents=True)
    current.symlink_to(".")

    if refused:
        with pytest.raises(HostError, match="linkhold bond status says how"):
            removal(Target(tmp_path, lives=False), restore_host=False)
    else:
        assert removal(Target(tmp_path, lives=False), restore_host=False)


def test_a_loss_of_power_leaves_no_empty_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is on the disk before it has its name: an empty unit would be a masked one."""
    synced: list[tuple[bytes, bool]] = []
    path = tmp_path / "etc/x.service"

    def fsync(descriptor: int) -> None:
        content = Path(f"/proc/self/fd/{descriptor}").read_bytes()
        synced.append((content, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path, HostFile("/etc/x.service", b"[Unit]\n")).do()

    assert synced == [(b"[Unit]\n", False)]
    assert path.read_bytes() == b"[Unit]\n"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, whole: Path) -> list[str]:
    """What was asked of the systemd of a host whose agent and broker run, and no relay."""
    asked: list[str] = []
    monkeypatch.setattr(plan, "call", lambda argv: asked.append(" ".join(argv)))
    monkeypatch.setattr(plan, "_is_active", lambda unit: unit != "linkhold-relay.service")
    (whole / "etc/linkhold").mkdir()
    (whole / "etc/linkhold/linkhold.yaml").touch()
    return asked


def set_up(root: Path, calls: list[str], version: str, *parts: Part, start: bool) -> list[str]:
    """Set up a version on a host that lives; return what systemd was asked to start or restart."""
    calls.clear()
    venv = Venv(root, sys.executable, root / "a.whl", f"/opt/linkhold/{version}-a")
    steps = install(Target(root, lives=True), venv, (), start=start, parts=(AGENT, *parts))
    perform(steps, lambda _: None, dry_run=False)
    return [asked for asked in calls if "start" in asked]


def test_what_runs_keeps_its_venv_until_it_is_started_anew(whole: Path, calls: list[str]) -> None:
    """An upgrade without a start, again, and then with one: only what is older starts anew."""
    set_up(whole, calls, "1", start=True)
    assert set_up(whole, calls, "2", start=False) == []
    assert waiting(whole) == {"linkhold.service"}
    assert set_up(whole, calls, "2", start=False) == []
    assert (calls, (whole / "opt/linkhold/1-a").exists()) == ([], True)

    restarted = ["systemctl start linkhold-broker.service", "systemctl restart linkhold.service"]
    assert set_up(whole, calls, "2", start=True) == restarted
    assert not waiting(whole)
    assert not (whole / "opt/linkhold/1-a").exists()
    assert set_up(whole, calls, "2", start=True) == []


def test_a_broker_whose_unit_changed_waits_too(whole: Path, calls: list[str]) -> None:
    """It is the broker itself that a later run has to start anew then."""
    set_up(whole, calls, "1", start=True)
    (whole / "etc/systemd/system/linkhold-broker.service").write_text("[Unit]\n")

    assert set_up(whole, calls, "1", start=False) == []
    assert "systemctl restart linkhold-broker.service" in set_up(whole, calls, "1", start=True)


def test_an_agent_that_is_current_waits_for_nothing(whole: Path, calls: list[str]) -> None:
    """A relay that is put beside it without a start is no reason to start the agent anew."""
    set_up(whole, calls, "1", start=True)

    assert set_up(whole, calls, "1", RELAY, start=False) == []
    assert not waiting(whole)


def test_a_boot_starts_everything_anew(whole: Path, calls: list[str]) -> None:
    """After it nothing waits, and the next run only takes away the venv of before."""
    set_up(whole, calls, "1", start=True)
    set_up(whole, calls, "2", start=False)
    shutil.rmtree(whole / "run")

    assert set_up(whole, calls, "2", start=True) == []
    assert not (whole / "opt/linkhold/1-a").exists()


def test_a_process_stays_with_the_version_that_it_began_with(tmp_path: Path) -> None:
    """What it imports and starts late is not of the version that took its place meanwhile."""
    for version in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", version], cwd=tmp_path, check=True
        )
        (packages,) = (tmp_path / version).glob("lib/python3*/site-packages")
        shutil.copytree(Path(linkhold.__file__).parent, packages / "linkhold")
        (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
        (packages / "late.py").touch()
    current = tmp_path / "current"
    current.symlink_to("1")
    script = f"""
import os, sys
from linkhold.__main__ import main
sys.argv = ["linkhold", "--version"]
main()
os.unlink({str(current)!r})
os.symlink("2", {str(current)!r})
import late, linkhold.exporter
from linkhold.children import ourselves
print(late.__file__, linkhold.exporter.__file__, *ourselves("linkhold.exporter"), sep="\\n")
"""

    command = [f"{current}/bin/python", "-I", "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said.count(f"{tmp_path}/1/") == 4
    assert f"{tmp_path}/2/" not in said
    assert str(current) not in said
