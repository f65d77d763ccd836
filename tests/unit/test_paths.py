"""Where an agent's files are looked for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from linkhold import paths

As = Callable[[int], None]


@pytest.fixture
def as_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> As:
    """Become another user, with an empty environment and a node folder under tmp_path."""
    for name in (
        paths.RUN_DIR_VARIABLE,
        paths.STATE_DIR_VARIABLE,
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(paths, "NODE_RUN_DIR", tmp_path / "node")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return lambda uid: monkeypatch.setattr(os, "geteuid", lambda: uid)


def test_root(as_user: As, tmp_path: Path) -> None:
    """Root's agent lives in the node's folders."""
    as_user(0)

    assert tmp_path / "node" == paths.run_dir() == paths.find_run_dir()
    assert Path("/var/lib/linkhold") == paths.state_dir()


def test_variables_win(as_user: As, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the environment names is taken, for root too."""
    as_user(0)
    monkeypatch.setenv(paths.RUN_DIR_VARIABLE, "~/run")
    monkeypatch.setenv(paths.STATE_DIR_VARIABLE, str(tmp_path / "state"))

    assert tmp_path / "home/run" == paths.run_dir() == paths.find_run_dir()
    assert tmp_path / "state" == paths.state_dir()


def test_user(as_user: As, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user's agent lives in the user's own folders."""
    as_user(1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert tmp_path / "linkhold" == paths.run_dir() == paths.find_run_dir()
    assert tmp_path / "home/.local/state/linkhold" == paths.state_dir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert tmp_path / "linkhold" == paths.state_dir()


@pytest.mark.parametrize("runtime", ["", "relative", "/nowhere/at/all"])
def test_user_without_runtime_dir(
    as_user: As, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: str
) -> None:
    """Without a usable XDG_RUNTIME_DIR the folder is in /tmp and bears the user's number."""
    as_user(1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)

    assert tmp_path / "linkhold-1000" == paths.run_dir()


@pytest.mark.parametrize("name", [paths.STATE_FILE, paths.BROKER_SOCKET])
def test_reader_prefers_the_node(as_user: As, tmp_path: Path, name: str) -> None:
    """A user's client listens to the node's agent when that has left a trace."""
    as_user(1000)
    trace = tmp_path / "node" / name
    trace.parent.mkdir(parents=True)
    trace.touch()

    assert tmp_path / "node" == paths.find_run_dir()
    assert tmp_path / "linkhold-1000" == paths.run_dir()


def test_reader_never_trusts_a_planted_folder(as_user: As, tmp_path: Path) -> None:
    """A folder in /tmp that another user made, or a link, is not looked into."""
    as_user(1000)
    planted = tmp_path / "linkhold-1000"
    planted.mkdir()
    os.chown(planted, 4242, -1) if os.getuid() == 0 else planted.chmod(0o777)
    assert tmp_path / "node" == paths.find_run_dir()

    planted.rmdir()
    planted.symlink_to(tmp_path)
    assert tmp_path / "node" == paths.find_run_dir()


def test_reader_never_trusts_a_folder_that_somebody_may_plant_next(
    as_user: As, tmp_path: Path
) -> None:
    """One that is not there yet, where everybody may make it: there is time before it is used."""
    as_user(1000)
    own = tmp_path / "linkhold-1000"
    assert own == paths.find_run_dir()
    tmp_path.chmod(0o1777)
    assert tmp_path / "node" == paths.find_run_dir()
    own.mkdir()
    os.chown(own, os.geteuid(), -1)
    assert own == paths.find_run_dir()


def test_claim_makes_the_folder(tmp_path: Path) -> None:
    """A new folder gets exactly the mode that was asked for."""
    paths.claim_dir(tmp_path / "a/b", 0o755)
    paths.claim_dir(tmp_path / "a/b", 0o755)

    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o755


def test_claim_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, a file, another's folder and one that others may write in are refused in words."""
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name, text in (
        ("link", "not a folder"),
        ("file", "not a folder"),
        ("open", "others may write"),
    ):
        with pytest.raises(PermissionError, match=text):
            paths.claim_dir(tmp_path / name)
    (tmp_path / "open").chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(PermissionError, match="belongs to user"):
        paths.claim_dir(tmp_path / "open")
