"""The command line: dispatch, exit codes, and ``linkhold check``."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from linkhold import __version__, cli
from linkhold.config import default_file
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from support.called import Outcome


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Return a function that makes the command ``status`` raise an error."""

    def replace(error: BaseException) -> None:
        def run(_args: object) -> int:
            raise error

        module = SimpleNamespace(add_arguments=lambda _parser: None, run=run)
        monkeypatch.setattr(importlib, "import_module", lambda _name: module)

    return replace


def process(*argv: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    """Run linkhold as a process of its own."""
    command: Sequence[str] = [sys.executable, "-m", "linkhold", *argv]
    return subprocess.run(command, text=True, timeout=60, check=False, **kwargs)  # type: ignore[call-overload, no-any-return]


def test_ok(call: Callable[..., Outcome], tmp_path: Path) -> None:
    """A right file is ``configuration OK`` and 0, named either way."""
    path = tmp_path / "c.yaml"
    path.write_text(default_file())

    assert call("check", str(path)) == (0, "configuration OK\n", "")
    assert call("check", "--config", str(path)) == (0, "configuration OK\n", "")


def test_mistakes(call: Callable[..., Outcome], tmp_path: Path) -> None:
    """Mistakes go to stdout, one a line, then their number; the exit code is 1."""
    path = tmp_path / "c.yaml"
    path.write_text("site: a b\nmode: x")
    code, out, err = call("check", str(path))

    assert (code, err) == (1, "")
    assert [line.partition(": ")[0] for line in out.splitlines()] == [
        f"{path}:1",
        f"{path}:2",
        "2 mistakes",
    ]


def test_one_mistake(call: Callable[..., Outcome], tmp_path: Path) -> None:
    """One mistake is singular."""
    path = tmp_path / "none"

    assert call("check", str(path)) == (1, f"{path}: does not exist\n1 mistake\n", "")


def test_print_default(call: Callable[..., Outcome]) -> None:
    """The default file is printed and nothing else."""
    assert call("check", "--print-default") == (0, default_file(), "")


def test_version(call: Callable[..., Outcome]) -> None:
    """The version is one line."""
    assert call("--version") == (0, f"linkhold {__version__}\n", "")


def test_help_lists_every_command(call: Callable[..., Outcome]) -> None:
    """The help names each command with its line, without importing any of them."""
    code, out, _ = call("--help")

    assert code == 0
    flat = " ".join(out.split())  # a long name has its line below it
    assert all(f"{name} {help_}" in flat for name, (help_, _) in cli.COMMANDS.items())


def test_help_of_check(call: Callable[..., Outcome]) -> None:
    """The help says where the mistakes go and what the exit codes are."""
    code, out, _ = call("check", "--help")

    assert code == 0
    assert "stdout" in out
    assert "exits with 1" in out


def test_no_command(call: Callable[..., Outcome]) -> None:
    """Without a command the help goes to stderr and the exit code is 64."""
    code, out, err = call()

    assert (code, out) == (64, "")
    assert err.startswith("usage: linkhold")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["chek"], "linkhold: unknown command 'chek'; did you mean check?"),
        (
            ["xyz"],
            f"linkhold: unknown command 'xyz'; allowed: {', '.join(cli.COMMANDS)}\n",
        ),
        (["-x"], "linkhold: unknown argument: -x"),
        (["check", "--foo"], "linkhold check: unknown argument: --foo"),
        (["check", "--print"], "linkhold check: unknown argument: --print"),
        (["check", "a", "b"], "linkhold check: unknown argument: b"),
        (["check", "--config"], "linkhold check: argument --config: expected one argument"),
        (["check", ""], "linkhold check: argument FILE: it is empty: name one"),
        (["check", "a", "--config", "b"], "linkhold check: argument --config: not allowed with "),
        (["check", "a", "--print-default"], "linkhold check: argument --print-default: not allo"),
    ],
)
def test_wrong_call(call: Callable[..., Outcome], argv: list[str], line: str) -> None:
    """A wrong call is one line and the usage on stderr, and 64."""
    code, out, err = call(*argv)

    assert (code, out) == (64, "")
    assert err.startswith(line)
    assert err.splitlines()[1].startswith("usage: linkhold")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Unavailable("no broker\nnowhere"), (1, "", "linkhold: no broker\nlinkhold: nowhere\n")),
        (
            PermissionError(13, "Permission denied", "/x"),
            (1, "", "linkhold: /x: Permission denied\n"),
        ),
        (KeyboardInterrupt(), (130, "", "")),
        (BrokenPipeError(), (141, "", "")),
    ],
    ids=repr,
)
def test_errors(
    call: Callable[..., Outcome],
    failing: Callable[[BaseException], None],
    error: BaseException,
    outcome: Outcome,
) -> None:
    """Errors become a line and an exit code, never a traceback."""
    failing(error)

    assert call("status") == outcome


def test_missing_package(
    call: Callable[..., Outcome], failing: Callable[[BaseException], None]
) -> None:
    """An installation without the agent's packages says what to install."""
    failing(ModuleNotFoundError("No module named 'yaml'", name="yaml"))
    code, _, err = call("status")

    assert code == 1
    assert "module yaml is not installed; try: pip install 'linkhold[agent]'" in err


def test_reader_that_leaves() -> None:
    """``linkhold check --print-default | head -0`` ends quietly."""
    end, start = os.pipe()
    os.close(end)
    done = process("check", "--print-default", stdout=start, stderr=subprocess.PIPE)
    os.close(start)

    assert (done.returncode, done.stderr) == (141, "")


def test_full_disk() -> None:
    """Output that cannot be written is an error and one line."""
    with Path("/dev/full").open("w") as full:
        done = process("check", "--print-default", stdout=full, stderr=subprocess.PIPE)

    assert (done.returncode, done.stderr) == (1, "linkhold: No space left on device\n")


def test_name_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    """A file name outside the terminal's encoding is shown with escapes."""
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = process("check", f"{tmp_path}/é", env=env, capture_output=True)

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"{tmp_path}/\\xe9: does not exist\n")


def test_check_is_light() -> None:
    """Checking a file imports no MQTT, no event loop and no TLS."""
    code = (
        "import sys; from linkhold.cli import main; main(['check', '--print-default']);"
        "print({'paho', 'asyncio', 'ssl', 'rich', 'socket'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stderr == "set()\n"
