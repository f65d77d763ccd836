"""`linkhold setup` with real pip and venv, into the folder of a Debian 12; never onto this host."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from support import installed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(bool(installed.missing()), reason=installed.missing())
CURRENT = "opt/linkhold/current"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return installed.build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """A host into which linkhold was installed from its wheel alone."""
    folder = tmp_path_factory.mktemp("root")
    installed.furnish(folder)
    dry = installed.setup(wheel, "--system", "--root", str(folder), "--dry-run").stdout
    assert not (folder / "opt").exists()
    done = installed.setup(wheel, "--system", "--root", str(folder)).stdout
    assert dry.replace("would ", "").splitlines()[:-1] == done.splitlines()[:-1]
    assert done.splitlines()[-1] == "installed and enabled; it starts at the next boot"
    return folder


def test_everything_is_there(root: Path) -> None:
    """Units are enabled, the venv runs linkhold with its pins, and the default file is valid."""
    wants = root / "etc/systemd/system/multi-user.target.wants"
    assert sorted(path.name for path in wants.iterdir()) == [
        "linkhold-boot.service",
        "linkhold-broker.service",
        "linkhold.service",
    ]
    command = [str(root / CURRENT / "bin/python"), "-I", "-m", "linkhold"]
    config = root / "etc/linkhold/linkhold.yaml"
    done = subprocess.run(
        [*command, "check", str(config)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "configuration OK\n"
    assert "mode: observe" in config.read_text()
    assert os.access(root / "usr/local/bin/linkhold", os.X_OK)


def test_again_changes_nothing(root: Path, wheel: Path) -> None:
    """A second run finds nothing to do; one that finds a difference mends that and no more."""
    again = ("--system", "--root", str(root))
    assert installed.setup(wheel, *again).stdout == "nothing to do: linkhold is as it should be\n"

    config = root / "etc/linkhold/linkhold.yaml"
    config.write_text("site: mine\n")
    (root / "etc/systemd/system/linkhold.service").write_text("[Unit]\n")
    mended = installed.setup(wheel, *again).stdout.splitlines()

    assert "write /etc/systemd/system/linkhold.service" in mended
    assert not any("write" in line for line in mended[2:-1])
    assert config.read_text() == "site: mine\n"


def test_rights_come_and_go(root: Path, wheel: Path) -> None:
    """--allow adds a drop-in; a run without it takes it away again."""
    drop_in = root / "etc/systemd/system/linkhold.service.d/cover.conf"

    installed.setup(wheel, "--system", "--root", str(root), "--allow", "cover")
    assert "CAP_SYS_PTRACE" in drop_in.read_text()
    installed.setup(wheel, "--system", "--root", str(root))
    assert not drop_in.exists()


def test_the_relay_comes_and_goes(root: Path, wheel: Path) -> None:
    """The relay is added beside the agent from the same venv, and taken away without it."""
    etc, wants = root / "etc", root / "etc/systemd/system/multi-user.target.wants"
    agent = ("--system", "--allow", "cover", "--root", str(root))
    installed.setup(wheel, *agent)
    added = installed.setup(wheel, "--system", "--relay", "--root", str(root)).stdout

    assert "make /opt/linkhold" not in added
    assert (wants / "linkhold-relay.service").is_symlink()
    assert (etc / "systemd/system/linkhold.service.d/cover.conf").exists()
    assert "alertmanagers" in (etc / "linkhold/relay.yaml").read_text()
    again = installed.setup(wheel, *agent).stdout
    assert again == "nothing to do: linkhold is as it should be\n"

    gone = ("--remove", "--relay", "--root", str(root))
    assert "relay.yaml and /var/lib/linkhold-relay stay" in installed.setup(wheel, *gone).stdout
    assert not list((etc / "systemd").rglob("*relay*"))
    assert (root / CURRENT).exists()
    assert installed.setup(wheel, *gone).stdout.startswith("nothing to do: linkhold relay is not")
    (etc / "linkhold/relay.yaml").unlink()
    installed.setup(wheel, "--system", "--root", str(root))


def test_an_upgrade_that_would_not_start_is_refused(root: Path, wheel: Path) -> None:
    """A configuration that the new version rejects stops the upgrade before the switch."""
    current = root / CURRENT
    target = current.readlink()
    current.unlink()
    current.symlink_to("0.0.1-old")
    config = root / "etc/linkhold/linkhold.yaml"
    kept = config.read_text()
    config.write_text("mode: no\n")
    try:
        done = installed.setup(wheel, "--system", "--root", str(root), check=False)
        assert done.returncode == 1
        assert "linkhold check" in done.stderr
        assert str(current.readlink()) == "0.0.1-old"
    finally:
        config.write_text(kept)
    installed.setup(wheel, "--system", "--root", str(root))
    assert current.readlink() == target


def test_removal(root: Path, wheel: Path) -> None:
    """Everything that was installed goes, the venv that runs it too; configuration stays.

    Last: it takes the host apart.
    """
    (root / "var/lib/linkhold").mkdir(parents=True)
    itself = [str(root / CURRENT / "bin/python"), "-I", "-m", "linkhold", "setup", "--remove"]
    run = subprocess.run(
        [*itself, "--root", str(root)], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    done = run.stdout
    again = installed.setup(wheel, "--remove", "--root", str(root)).stdout

    found = (path for path in root.rglob("*linkhold*") if not path.is_dir())
    left = [path for path in found if path.parent != root / "run"]  # a lock, until the next boot
    assert left == [root / "etc/linkhold/linkhold.yaml"]
    assert not (root / "opt/linkhold").exists()
    assert "removed; /etc/linkhold and /var/lib/linkhold stay" in done
    assert again == "nothing to do: linkhold is not installed\n"
