"""Installs, upgrades or removes linkhold by its own `linkhold setup`."""

from __future__ import annotations

DOCUMENTATION = r"""
module: service
short_description: Installs, upgrades or removes linkhold as a service
description:
  - Runs C(linkhold setup) on the node and nothing else. What it would do is asked first, so that
    check mode, the diff and C(changed) are what the command says.
  - The wheel comes from the controller with each run, and stays nowhere.
  - An installation whose interpreter is gone, as after an upgrade of the host that brought another
    Python, is not removed but named. Install it once more, then remove it.
version_added: "0.1.0"
author: linkhold contributors
options:
  state:
    description: Whether linkhold shall be there.
    type: str
    choices: [present, absent]
    default: present
  wheel:
    description: The wheel, a file of the controller.
    type: path
  wheelhouse:
    description:
      - A folder of the controller with the wheels of the pinned dependencies, for nodes that reach
        no index of packages. Without it pip on the node is as the node configures it.
    type: path
  python:
    description: The interpreter that runs the installation.
    type: path
  venv_python:
    description: The interpreter of the service, where it shall be another than the host's best.
    type: str
    default: ""
  allow:
    description: Rights for options that need more than the unit has.
    type: list
    elements: str
    default: []
  restore_host:
    description: With O(state=absent), also take back what linkhold changed on the host.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Asks C(linkhold setup --dry-run).
  diff_mode:
    support: full
    description: The steps that are taken, or would be.
"""
EXAMPLES = r"""
- name: Install or upgrade linkhold
  linkhold.linkhold.service:
    wheel: dist/linkhold-0.1.0-py3-none-any.whl
    python: /usr/bin/python3.11
"""
RETURN = r"""
steps:
  description: What was done, or in check mode would be, a line a step.
  returned: always
  type: list
"""

import os
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

HOME = Path("/opt/linkhold")
UNITS = ("linkhold-boot", "linkhold-broker", "linkhold", "linkhold-relay")
WRITTEN = (
    "/usr/local/bin/linkhold",
    *(f"/etc/systemd/system/{unit}.service" for unit in UNITS),
)
"""What an installation has once its venv is whole: the units come first and go before the command,
so that of all that it writes nothing is there without one of these."""
NOTHING = "nothing to do"


def main() -> None:
    """Answer the task."""
    module = AnsibleModule(
        {
            "state": {"choices": ["present", "absent"], "default": "present"},
            "wheel": {"type": "path"},
            "wheelhouse": {"type": "path"},
            "python": {"type": "path"},
            "venv_python": {"default": ""},
            "allow": {"type": "list", "elements": "str", "default": []},
            "restore_host": {"type": "bool", "default": False},
        },
        required_if=[("state", "present", ("wheel", "python"))],
        supports_check_mode=True,
    )
    if module.params["state"] == "absent" and not own_python():
        clear(module)
    *steps, outcome = ask(module, "--dry-run")
    steps = [step[len("would ") :] for step in steps if step.startswith("would ")]
    if outcome.startswith(NOTHING):
        module.exit_json(changed=False, steps=[])
    if not module.check_mode:
        ask(module)
    module.exit_json(changed=True, steps=steps, diff=diff(steps))


def own_python() -> str:
    """Return the interpreter of linkhold's venv; that of one not in use yet, if there is no other.

    An installation that was cut short may have left units and no command.
    """
    found = [HOME / "current", *(mark.parent for mark in HOME.glob("*/complete"))]
    return next((str(one / "bin/python") for one in found if (one / "bin/python").exists()), "")


def clear(module: Any) -> None:
    """End the task where no venv can remove itself.

    Where none has become whole nothing else was written, and the folder is all there is. Else one
    was whole and its interpreter has gone: only linkhold knows what it changed on the host, and
    which bond would be lost at the next boot. That is refused, in check mode too.
    """
    left = [path for path in WRITTEN if os.path.lexists(path)]
    if left:
        module.fail_json(
            msg=f"linkhold cannot remove itself: the interpreter of {HOME} is gone, as after an "
            f"upgrade of the host that brought another Python. Still there: {', '.join(left)}. "
            "Nothing was changed. Next: install linkhold once more (state: present, as the "
            "playbook site does), then remove it"
        )
    steps = [f"remove {HOME}"] * HOME.exists()
    if steps and not module.check_mode:
        shutil.rmtree(HOME)
    module.exit_json(changed=bool(steps), steps=steps, diff=diff(steps))


def diff(steps: list[str]) -> dict[str, str]:
    """Return the steps as what is new."""
    return {"before": "", "after": "".join(f"{step}\n" for step in steps)}


def ask(module: Any, *more: str) -> list[str]:
    """Return the lines that `linkhold setup` says; ends the task when it refuses."""
    code, said, error = module.run_command(
        [*command(module.params), *more], environ_update=environment(module.params)
    )
    if code or not said.strip():
        text = (error or said).strip() or f"ended with {code}"
        module.fail_json(msg=f"linkhold setup: {text.replace('linkhold: ', '', 1)}", rc=code)
    return str(said).strip().splitlines()


def command(wanted: dict[str, Any]) -> list[str]:
    """Return the command line of `linkhold setup`."""
    if wanted["state"] == "absent":
        restore = ["--restore-host"] * wanted["restore_host"]
        return [own_python(), "-I", "-m", "linkhold", "setup", "--remove", *restore]
    named = ["--python", wanted["venv_python"]] if wanted["venv_python"] else []
    rights = [word for right in wanted["allow"] for word in ("--allow", right)]
    return [wanted["python"], "-m", "linkhold", "setup", "--system", *named, *rights]


def environment(wanted: dict[str, Any]) -> dict[str, str]:
    """Return what the command's environment has besides: the wheel runs as it is."""
    found = {"PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}
    if wanted["wheel"]:
        found["PYTHONPATH"] = wanted["wheel"]
    if wanted["wheelhouse"]:
        found |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wanted["wheelhouse"]}
    return found


if __name__ == "__main__":
    main()
