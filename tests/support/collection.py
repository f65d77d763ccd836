"""Modules of the Ansible collection, taken from their files and run without Ansible."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

MODULES = Path(__file__).parents[2] / "ansible/plugins/modules"


def module(name: str) -> ModuleType:
    """Import one of the collection's modules from its file.

    What Ansible has for modules patches ``sys.intern`` and more in the whole process, which torch
    does not survive: here only the name is there; the plays of the other tests run the real one.
    """
    basic = types.ModuleType("ansible.module_utils.basic")
    basic.AnsibleModule = object  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location(name, MODULES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        for shown in ("ansible", "ansible.module_utils"):
            patch.setitem(sys.modules, shown, types.ModuleType(shown))
        patch.setitem(sys.modules, basic.__name__, basic)
        spec.loader.exec_module(made)
    return made


class Task:
    """What Ansible gives a module: parameters, and ends that are exceptions here."""

    def __init__(self, check_mode: bool = False, **params: Any) -> None:  # noqa: FBT001, FBT002
        self.params, self.check_mode = params, check_mode

    def exit_json(self, **result: Any) -> None:
        """End well."""
        raise Ended({"failed": False, **result})

    def fail_json(self, **result: Any) -> None:
        """End badly."""
        raise Ended({"failed": True, **result})


class Ended(Exception):
    """The end of a module, with its result."""


def end_of(what: Any, *arguments: Any) -> dict[str, Any]:
    """Return the result with which a call ends the module."""
    with pytest.raises(Ended) as ended:
        what(*arguments)
    result: dict[str, Any] = ended.value.args[0]
    return result
