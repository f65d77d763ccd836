"""What importing a part brings into a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "pyroute2", "psutil", "yaml", "systemd", "rich", "sqlite3", "asyncio")


@pytest.mark.parametrize(
    "module", ["linkhold.client", "linkhold.mqtt", "linkhold.wire", "linkhold.model"]
)
def test_training_processes_load_nothing_of_the_agent(module: str) -> None:
    """In a fresh interpreter the client's parts import none of the agent's packages."""
    code = f"import sys, {module}; print(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.strip() == ""


def test_the_daemon_needs_no_table_printer() -> None:
    """The agent's process does not pay for rich or for pyroute2."""
    code = (
        "import sys, linkhold.cli.agent;"
        "print(' '.join(m for m in ('rich', 'pyroute2', 'psutil') if m in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.strip() == ""


@pytest.mark.parametrize("module", ["boot", "guard"])
def test_boot_and_guard_need_the_standard_library_only(module: str) -> None:
    """Whoever brings a node back does not depend on a package that an upgrade broke."""
    code = (
        f"import sys, linkhold.actuators.{module};"
        "files = (str(getattr(m, '__file__', '')) for m in list(sys.modules.values()));"
        "print(' '.join(f for f in files if 'site-packages' in f and '_distutils_hack' not in f))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.strip() == ""


def test_ctrl_c_is_caught_before_anything_is_loaded() -> None:
    """The entry point loads the command line inside of what catches it: no traceback, code 130."""
    code = (
        "import sys, linkhold.__main__ as entry\n"
        "early = {'argparse', 'dataclasses', 'linkhold.cli', 'linkhold.model'} & set(sys.modules)\n"
        "class Typed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'linkhold.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Typed())\n"
        "code = entry.main()\n"
        "sys.exit(code if not early else f'loaded early: {early}')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (run.returncode, run.stderr) == (130, "")
