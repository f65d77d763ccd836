"""The collection's service: how it calls `linkhold setup`, and what it removes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from linkhold.install.files import COMMAND, PARTS, UNIT_FOLDER
from support.collection import Task, end_of, module

if TYPE_CHECKING:
    from pathlib import Path

service = module("service")


def test_removal_after_an_installation_that_was_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole venv removes itself, in use or not; of one that is not whole the folder goes."""
    monkeypatch.setattr(service, "HOME", tmp_path / "home")
    assert end_of(service.clear, Task())["changed"] is False
    begun = tmp_path / "home/0.1.0-a/bin"
    begun.mkdir(parents=True)
    (begun / "python").touch()
    assert service.own_python() == ""
    assert end_of(service.clear, Task(check_mode=True))["changed"] is True
    assert begun.exists()

    (begun.parent / "complete").touch()
    assert service.own_python() == str(begun / "python")
    (begun.parent / "complete").unlink()
    assert end_of(service.clear, Task())["steps"] == [f"remove {tmp_path}/home"]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    "left",
    [
        "usr/local/bin/linkhold",
        "etc/systemd/system/linkhold.service",
        "etc/systemd/system/linkhold-relay.service",
    ],
)
def test_what_only_its_own_python_removes(
    *, left: str, check_mode: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the host's Python gone a whole installation stays as it is, and what to do is said."""
    home = tmp_path / "opt/linkhold"
    python = home / "0.1.0-a/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(tmp_path / "usr/bin/python3.11")  # went with an upgrade of the host
    (home / "0.1.0-a/complete").touch()
    (home / "current").symlink_to("0.1.0-a")
    (tmp_path / left).parent.mkdir(parents=True)
    (tmp_path / left).touch()
    beside = tmp_path / "etc/systemd/system/postgresql.service"
    beside.parent.mkdir(parents=True, exist_ok=True)
    beside.touch()
    monkeypatch.setattr(service, "HOME", home)
    monkeypatch.setattr(service, "WRITTEN", [str(tmp_path / one[1:]) for one in service.WRITTEN])
    task = Task(check_mode=check_mode, state="absent", restore_host=True)
    monkeypatch.setattr(service, "AnsibleModule", lambda *_, **__: task)

    found = end_of(service.main)

    assert found["failed"] is True, found
    assert f"Still there: {tmp_path / left}. " in found["msg"]
    assert f"the interpreter of {home} is gone" in found["msg"]
    assert "state: present" in found["msg"]
    assert python.is_symlink()

    (tmp_path / left).unlink()
    assert end_of(service.main)["steps"] == [f"remove {home}"]
    assert home.exists() is check_mode


def test_the_module_knows_what_an_installation_writes() -> None:
    """The command and every unit of every part are what `linkhold setup` writes."""
    units = [f"{UNIT_FOLDER}/{unit}" for part in PARTS for unit in part.units]

    assert sorted(service.WRITTEN) == sorted([COMMAND, *units])


def test_setup_is_called_as_it_is_documented() -> None:
    """Rights, interpreter and restore become options of `linkhold setup`."""
    wanted: dict[str, Any] = {
        "state": "present",
        "python": "/p",
        "venv_python": "",
        "allow": ["cover"],
    }
    assert service.command(wanted) == [
        "/p",
        "-m",
        "linkhold",
        "setup",
        "--system",
        "--allow",
        "cover",
    ]

    wanted = {"state": "absent", "restore_host": True}
    assert service.command(wanted)[4:] == ["setup", "--remove", "--restore-host"]
