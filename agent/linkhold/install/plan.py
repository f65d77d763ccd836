"""What `linkhold setup` does, step by step: the one order in which nothing is ever half there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.install.files import (
    COMMAND,
    CONFIG,
    CURRENT,
    HOME,
    RIGHTS,
    UNITS,
    drop_in,
    host_files,
)
from linkhold.install.steps import Step, below, call, point, remove, write
from linkhold.model import HostError

if TYPE_CHECKING:
    from linkhold.install.venv import Venv

WANTS = "/etc/systemd/system/multi-user.target.wants"
RECORDS = "/var/lib/linkhold/bond"
UNFINISHED = f"{HOME}/unfinished"
"""There while an installation is at work; what it left undone, the next run does."""
BROKER = "linkhold-broker.service"
DEFAULT_CONFIG = ("check", "--print-default")


@dataclass(frozen=True, slots=True)
class Target:
    """The host, or the folder of one that is being built; ``lives``: its systemd runs now."""

    root: Path
    lives: bool


def install(target: Target, venv: Venv, rights: tuple[str, ...], *, start: bool) -> list[Step]:
    """Return the steps that install or upgrade; the running service changes in the last ones."""
    root = target.root
    files = [write(root, file) for file in host_files(rights)]
    files += [remove(root, drop_in(right)) for right in RIGHTS if right not in rights]
    switch = point(root, CURRENT, Path(venv.folder).name)
    stale = [step.text for step in (*files, switch) if not step.done()]
    unfinished = below(root, UNFINISHED)
    if unfinished.exists():
        stale.append(BROKER)  # a run before this one ended before it had come to the last steps
    begin, end = _marks(unfinished, done=not stale)
    steps = [*venv.steps(), _config(root, venv), begin, *files, switch]
    if target.lives:
        steps += _accounts(fresh=not stale)
    steps.append(_enable(root, lives=target.lives))
    if target.lives and start:
        steps += _start(stale)
    return [*steps, *_old_venvs(root, venv), end]


def _marks(unfinished: Path, *, done: bool) -> tuple[Step, Step]:
    """Return the steps that say for the next run whether this one came to its end."""
    return (
        Step("mark the change as begun", lambda: done, unfinished.touch),
        Step("mark the change as complete", lambda: done, unfinished.unlink),
    )


def _config(root: Path, venv: Venv) -> Step:
    path = below(root, CONFIG)

    def do() -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shell = 'umask 022; "$@" >"$0.new" && mv "$0.new" "$0"'
        call(["/bin/sh", "-c", shell, str(path), *venv.linkhold(*DEFAULT_CONFIG)])

    return Step(f"write {CONFIG} with every default as a comment", path.exists, do)


def _accounts(*, fresh: bool) -> list[Step]:
    """Return the steps that have systemd take in what was written, unless nothing was."""
    commands = (
        ["systemd-sysusers", "/etc/sysusers.d/linkhold.conf"],
        ["systemd-tmpfiles", "--create", "/etc/tmpfiles.d/linkhold.conf"],
        ["systemctl", "daemon-reload"],
    )
    return [_command(command, done=fresh) for command in commands]


def _command(command: list[str], *, done: bool) -> Step:
    return Step(f"run {' '.join(command)}", lambda: done, lambda: call(command))


def _enable(root: Path, *, lives: bool) -> Step:
    command = ["systemctl", *([] if lives else [f"--root={root}"]), "enable", "--quiet", *UNITS]
    wants = [below(root, f"{WANTS}/{unit}") for unit in UNITS]
    done = all(path.is_symlink() for path in wants)
    return Step(f"enable {', '.join(UNITS)}", lambda: done, lambda: call(command))


def _start(stale: list[str]) -> list[Step]:
    """Return the steps that start, or start anew, what is not as it was.

    Trainers keep their broker through an upgrade unless its own unit is another. The boot unit is
    for boots.
    """
    broker = "restart" if any(BROKER in text for text in stale) else "start"
    return [
        _command(["systemctl", broker, BROKER], done=not stale),
        _command(["systemctl", "restart", "linkhold.service"], done=not stale),
    ]


def _old_venvs(root: Path, venv: Venv) -> list[Step]:
    found = below(root, HOME).glob("*-*/complete")
    names = sorted(f"{HOME}/{path.parent.name}" for path in found)
    return [remove(root, name) for name in names if name != venv.folder]


def removal(target: Target, *, restore_host: bool) -> list[Step]:
    """Return the steps that undo an installation; configuration and state folder stay.

    Raises :class:`HostError` where a bond would not be made at the next boot any more.
    """
    root = target.root
    steps = []
    if target.lives:
        steps += [_command(["systemctl", "disable", "--now", "--quiet", *UNITS], done=_gone(root))]
    if restore_host:
        if not target.lives:
            raise HostError("--restore-host works on the running host only, not with --root")
        python = below(root, CURRENT) / "bin/python"
        steps += [_command([str(python), "-I", "-m", "linkhold", "restore", "--yes"], done=False)]
    else:
        _refuse_to_lose(root)
    files = [file.path for file in host_files(RIGHTS) if file.path != COMMAND]
    wants = [f"{WANTS}/{unit}" for unit in UNITS]
    names = [*wants, *files, COMMAND, HOME]
    steps += [remove(root, name) for name in names]
    steps.append(_empty_folder(root, str(Path(drop_in(RIGHTS[0])).parent)))
    if target.lives:
        steps.append(_command(["systemctl", "daemon-reload"], done=_gone(root)))
    return steps


def _empty_folder(root: Path, name: str) -> Step:
    """Return the step that removes a folder with nothing of an administrator's in it."""
    path = below(root, name)
    return Step(f"remove {name}", lambda: not path.is_dir() or any(path.iterdir()), path.rmdir)


def _gone(root: Path) -> bool:
    return not any(below(root, f"/etc/systemd/system/{unit}").exists() for unit in UNITS)


def _refuse_to_lose(root: Path) -> None:
    """Refuse while a bond depends on linkhold-boot.service: no manager makes it at boot."""
    lost = []
    for path in sorted(below(root, RECORDS).glob("committed-*.json")):
        try:
            record = json.loads(path.read_bytes())
        except (OSError, ValueError):
            record = {}
        if not isinstance(record, dict) or record.get("persist", "linkhold") == "linkhold":
            lost.append(path.stem.removeprefix("committed-"))
    if lost:
        raise HostError(
            f"{', '.join(lost)}: made by linkhold at each boot, so the next boot would have no "
            "network without it; use --restore-host, or first: linkhold bond remove BOND"
        )
