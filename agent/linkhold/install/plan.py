"""What `linkhold setup` does, step by step: the one order in which nothing is ever half there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.install.files import (
    AGENT,
    COMMAND,
    CURRENT,
    HOME,
    PARTS,
    RELAY,
    RIGHTS,
    UNIT_FOLDER,
    Part,
    drop_in,
    host_files,
)
from linkhold.install.later import MARK, put_off, waiting
from linkhold.install.steps import Step, below, call, point, remove, succeeds, write
from linkhold.kept import read_kept
from linkhold.model import HostError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkhold.install.venv import Venv

WANTS = "/etc/systemd/system/multi-user.target.wants"
RECORDS = "/var/lib/linkhold/bond"
UNFINISHED = f"{HOME}/unfinished"
"""There while an installation is at work; what it left undone, the next run does."""
BROKER = "linkhold-broker.service"
AGENT_UNIT = "linkhold.service"
RELAY_UNIT = RELAY.units[0]


@dataclass(frozen=True, slots=True)
class Target:
    """The host, or the folder of one that is being built; ``lives``: its systemd runs now."""

    root: Path
    lives: bool


def present(root: Path) -> tuple[Part, ...]:
    """Return the parts of linkhold that this host has."""
    return tuple(part for part in PARTS if _is_there(root, part))


def _is_there(root: Path, part: Part) -> bool:
    return any(below(root, f"{UNIT_FOLDER}/{unit}").exists() for unit in part.units)


def rights_of(root: Path) -> tuple[str, ...]:
    """Return the rights that the agent of this host has been given."""
    return tuple(right for right in RIGHTS if below(root, drop_in(right)).exists())


def install(
    target: Target,
    venv: Venv,
    rights: tuple[str, ...],
    *,
    start: bool,
    parts: tuple[Part, ...] = (AGENT,),
) -> list[Step]:
    """Return the steps that install or upgrade; the running service changes in the last ones.

    Raises :class:`HostError` while a change of bonds is at work.
    """
    root = target.root
    switch = point(root, CURRENT, Path(venv.folder).name)
    files = {part: _files(root, part, rights) for part in parts}
    stale = {part: _stale(root, [*files[part], switch]) for part in parts}
    fresh = not any(stale.values())
    if not fresh:
        _refuse_amid_change(root)
    begin, end = _marks(below(root, UNFINISHED), done=fresh)
    checks = [_check(target, venv, part) for part in parts]
    configs = [_config(root, venv, part) for part in parts]
    written = {step.text: step for steps in files.values() for step in steps}.values()
    steps = [venv.make(), *checks, *configs, begin, *written, switch]
    if target.lives:
        steps += _accounts(parts, fresh=fresh)
    steps += [_enable(root, part, lives=target.lives) for part in parts]
    late = waiting(root)
    changed = late.union(*(_run_from(part, stale[part]) for part in parts))
    if target.lives and start:
        steps += [step for part in parts for step in _start(venv, part, changed)]
        steps.append(remove(root, MARK))
        late = frozenset()
    elif target.lives:
        late = frozenset(unit for unit in changed if _is_active(unit))
        steps.append(put_off(root, late))
    # What runs as before runs from the venv before, and starts its helpers from there.
    return [*steps, *([] if late else _old_venvs(root, venv)), end]


def _run_from(part: Part, stale: list[str]) -> frozenset[str]:
    """Return the units that run from what is stale. The boot unit is for boots.

    Trainers keep their broker through an upgrade unless its own unit is another.
    """
    if not stale:
        return frozenset()
    if part is RELAY:
        return frozenset({RELAY_UNIT})
    return frozenset({AGENT_UNIT, *[BROKER for text in stale if BROKER in text]})


def _files(root: Path, part: Part, rights: tuple[str, ...]) -> list[Step]:
    """Return the steps that write what belongs to a part and take away rights it has no more."""
    if part is not AGENT:
        return [write(root, file) for file in host_files((), (part,))]
    files = [write(root, file) for file in host_files(rights)]
    return [*files, *(remove(root, drop_in(right)) for right in RIGHTS if right not in rights)]


def _stale(root: Path, steps: list[Step]) -> list[str]:
    """Return what is not as it should be: who runs from it must be started anew."""
    found = [step.text for step in steps if not step.done()]
    if below(root, UNFINISHED).exists():
        found.append(BROKER)  # a run before this one ended before it had come to the last steps
    return found


def _check(target: Target, venv: Venv, part: Part) -> Step:
    """Return the step that refuses a version that would not start with the configuration there is.

    A relay that does not run may still wait for its configuration.
    """
    config = below(target.root, part.config)
    command = (
        venv.linkhold("check", str(config))
        if part is AGENT
        else venv.linkhold("relay", "--check", "--config", str(config))
    )

    def done() -> bool:
        idle = part is RELAY and not (target.lives and _is_active(RELAY_UNIT))
        return venv.in_use() or idle or not config.exists()

    def do() -> None:
        if not succeeds(command):
            raise HostError(
                f"the new version refuses {part.config}, so that it is not put in use; what is "
                f"wrong: {' '.join(command)}"
            )

    return Step(f"check {part.config} with the new version", done, do)


def _marks(unfinished: Path, *, done: bool) -> tuple[Step, Step]:
    """Return the steps that say for the next run whether this one came to its end."""
    return (
        Step("mark the change as begun", lambda: done, unfinished.touch),
        Step("mark the change as complete", lambda: done, unfinished.unlink),
    )


def _config(root: Path, venv: Venv, part: Part) -> Step:
    path = below(root, part.config)

    def do() -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        shell = '"$@" >"$0.new" && sync "$0.new" && mv "$0.new" "$0"'
        call(["/bin/sh", "-c", shell, str(path), *venv.linkhold(*part.default)])

    return Step(f"write {part.config} with every default as a comment", path.exists, do)


def _accounts(parts: tuple[Part, ...], *, fresh: bool) -> list[Step]:
    """Return the steps that have systemd take in what was written, unless nothing was."""
    users, folders = zip(*(part.accounts for part in parts), strict=True)
    commands = (
        ["systemd-sysusers", *users],
        ["systemd-tmpfiles", "--create", *folders],
        ["systemctl", "daemon-reload"],
    )
    return [_command(command, done=fresh) for command in commands]


def _command(command: list[str], *, done: bool) -> Step:
    return Step(f"run {' '.join(command)}", lambda: done, lambda: call(command))


def _enable(root: Path, part: Part, *, lives: bool) -> Step:
    units = part.units
    command = ["systemctl", *([] if lives else [f"--root={root}"]), "enable", "--quiet", *units]
    wants = [below(root, f"{WANTS}/{unit}") for unit in units]
    done = all(path.is_symlink() for path in wants)
    return Step(f"enable {', '.join(units)}", lambda: done, lambda: call(command))


def _start(venv: Venv, part: Part, changed: frozenset[str]) -> list[Step]:
    """Return the steps that start, or start anew, what is not as it was."""
    if part is RELAY:
        return [_start_relay(venv, stale=RELAY_UNIT in changed)]
    broker = "restart" if BROKER in changed else "start"
    done = AGENT_UNIT not in changed
    return [
        _command(["systemctl", broker, BROKER], done=done),
        _command(["systemctl", "restart", AGENT_UNIT], done=done),
    ]


def _start_relay(venv: Venv, *, stale: bool) -> Step:
    """Return the step that starts the relay anew, once it is told whom to listen to."""
    command = ["systemctl", "restart", RELAY_UNIT]

    def done() -> bool:
        as_it_was = not stale and _is_active(RELAY_UNIT)
        return as_it_was or not is_configured(venv.linkhold)

    return Step(f"run {' '.join(command)}", done, lambda: call(command))


def is_configured(linkhold: Callable[..., Sequence[str]]) -> bool:
    """Tell whether a relay would start; ``linkhold`` makes a command of arguments."""
    return succeeds(linkhold("relay", "--check", "--config", RELAY.config))


def _is_active(unit: str) -> bool:
    return succeeds(["systemctl", "is-active", "--quiet", unit])


def _old_venvs(root: Path, venv: Venv) -> list[Step]:
    """Return the steps that remove what no unit runs from: also what was never finished."""
    names = sorted(f"{HOME}/{path.name}" for path in below(root, HOME).glob("*-*"))
    return [remove(root, name) for name in names if name != venv.folder]


def removal(target: Target, *, restore_host: bool, parts: tuple[Part, ...] = PARTS) -> list[Step]:
    """Return the steps that undo an installation; configuration and state folder stay.

    ``parts`` are those to remove. Raises :class:`HostError` where a bond would not be made at the
    next boot any more, and while a change of bonds is at work.
    """
    root = target.root
    _refuse_amid_change(root)
    stays = tuple(part for part in present(root) if part not in parts)
    steps = []
    if target.lives:
        # Those there are: systemctl refuses all for one that an unfinished run has not written.
        named = [unit for part in parts for unit in part.units]
        units = [unit for unit in named if below(root, f"{UNIT_FOLDER}/{unit}").exists()]
        stop = ["systemctl", "disable", "--now", "--quiet", *units]
        steps += [_command(stop, done=not units), _forget_failures(units)]
    if restore_host:
        steps += [_restore(target)]
    elif AGENT in parts:
        _refuse_to_lose(root)
    names = [f"{WANTS}/{unit}" for part in parts for unit in part.units]
    rights = RIGHTS if AGENT in parts else ()
    names += [file.path for file in host_files(rights, parts) if file.path != COMMAND]
    names += [] if stays else [COMMAND, HOME, MARK]
    files = [remove(root, name) for name in names]
    files += [_empty_folder(root, str(Path(drop_in(RIGHTS[0])).parent))] if rights else []
    if target.lives:
        gone = all(step.done() for step in files)
        files.append(_command(["systemctl", "daemon-reload"], done=gone))
    return [*steps, *files]


def _forget_failures(units: list[str]) -> Step:
    """Return the step after which no unit that is removed counts as a failed one for ever."""

    def failed() -> list[str]:
        return [unit for unit in units if succeeds(["systemctl", "is-failed", "--quiet", unit])]

    return Step(
        "forget how its units failed",
        lambda: not failed(),
        lambda: call(["systemctl", "reset-failed", *failed()]),
    )


def _restore(target: Target) -> Step:
    if not target.lives:
        raise HostError(
            "--restore-host works on a running host with systemd: not with --root, nor in a "
            "container"
        )
    python = below(target.root, CURRENT) / "bin/python"
    if not python.exists():
        raise HostError(
            "--restore-host runs the linkhold that is installed, and there is none: install it "
            "once more, then remove it"
        )
    return _command([str(python), "-I", "-m", "linkhold", "restore", "--yes"], done=False)


def _empty_folder(root: Path, name: str) -> Step:
    """Return the step that removes a folder with nothing of an administrator's in it."""
    path = below(root, name)
    return Step(f"remove {name}", lambda: not path.is_dir() or any(path.iterdir()), path.rmdir)


def _refuse_to_lose(root: Path) -> None:
    """Refuse while a bond depends on linkhold-boot.service: no manager makes it at boot."""
    lost = [
        path.stem.removeprefix("committed-")
        for path in sorted(below(root, RECORDS).glob("committed-*.json"))
        if _read(path).get("persist", "linkhold") == "linkhold"
    ]
    if lost:
        raise HostError(
            f"{', '.join(lost)}: made by linkhold at each boot, so the next boot would have no "
            "network without it; use --restore-host, or first: linkhold bond remove BOND"
        )


def _refuse_amid_change(root: Path) -> None:
    """Refuse while a change of bonds is neither committed nor undone: its guard is of the venv."""
    path = below(root, f"{RECORDS}/journal.json")
    if below(root, CURRENT).exists() and path.exists() and _read(path).get("state") != "committed":
        raise HostError(
            "a change of bonds is not finished, and what would undo it runs from here; end it "
            "first: linkhold bond status says how"
        )


def _read(path: Path) -> dict[str, Any]:
    """Return a record of :mod:`linkhold.actuators`, empty where it is damaged."""
    try:
        found = json.loads(read_kept(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
