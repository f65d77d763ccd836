"""Carries the wheel to the node for the module of the same name; it stays nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

# In the checkout mypy takes the collection's own folder for Ansible's, which has no types.
from ansible.plugins.action import ActionBase  # type: ignore[attr-defined]

MODULE = "linkhold.linkhold.service"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Transfers the files that the task names, and runs the module with where they are."""

    TRANSFERS_FILES = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> Any:
        """Return the module's result."""
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        folder = arguments.pop("wheelhouse", "")
        try:
            if wheel := arguments.get("wheel"):
                arguments["wheel"] = self._carry(self._file(wheel))
            if folder:
                planned = self._plan(arguments, task_vars)
                if self._task.check_mode or not planned.get("changed"):
                    return planned
                arguments["wheelhouse"] = self._carry_all(Path(folder))
            return self._ask(arguments, task_vars)
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _plan(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> Any:
        """Return what the module would do: a wheelhouse need not be carried for nothing."""
        mode, self._task.check_mode = self._task.check_mode, True
        try:
            return self._ask(arguments, task_vars)
        finally:
            self._task.check_mode = mode

    def _ask(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> Any:
        return self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars)

    def _file(self, name: str) -> Path:
        path = Path(name).expanduser().absolute()
        if not path.is_file():
            raise AnsibleActionFail(f"wheel: {path}: no such file on the controller")
        return path

    def _carry_all(self, folder: Path) -> str:
        wheels = sorted(folder.glob("*.whl"))
        if not wheels:
            raise AnsibleActionFail(f"wheelhouse: {folder}: no wheels in it on the controller")
        carried = [self._carry(wheel) for wheel in wheels]
        return str(Path(carried[0]).parent)

    def _carry(self, path: Path) -> str:
        shell = self._connection._shell
        place = str(shell.join_path(shell.tmpdir or self._make_tmp_path(), path.name))
        self._transfer_file(str(path), place)
        self._fixup_perms2((place,), execute=False)
        return place
