"""The controller of a rollout: the built collection, an inventory, and ansible-playbook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from support.netns import Namespace

REPO = Path(__file__).resolve().parents[2]
COLLECTION = REPO / "ansible"
BIN = Path(sys.executable).parent
RUN_S = 240
_RECAP = re.compile(r"(?m)^(\S+)\s+: (ok=.*)$")


@dataclass(frozen=True)
class Ran:
    """How a playbook ended: its exit code, what it said, and the counts of each host."""

    code: int
    said: str
    hosts: Mapping[str, Mapping[str, int]]

    def counts(self, name: str) -> dict[str, int]:
        """Return one count, such as ``changed``, of every host."""
        return {host: found[name] for host, found in self.hosts.items()}

    @property
    def text(self) -> str:
        """What it said with all blanks alike, for looking up sentences."""
        return re.sub(r"\s+", " ", self.said.replace("\\n", " "))


def install_collection(folder: Path) -> Path:
    """Build the collection as a release is, install it, and return the path of collections."""
    galaxy = [str(BIN / "ansible-galaxy"), "collection"]
    _galaxy(folder, *galaxy, "build", str(COLLECTION), "--output-path", str(folder))
    built = next(folder.glob("linkhold-linkhold-*.tar.gz"))
    _galaxy(folder, *galaxy, "install", "--no-deps", "-p", str(folder), str(built))
    return folder


def _galaxy(folder: Path, *command: str) -> None:
    where = environment(folder, folder)
    done = subprocess.run(command, capture_output=True, text=True, env=where, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class Controller:
    """Runs playbooks of the collection from within a namespace that reaches the nodes."""

    def __init__(self, namespace: Namespace, folder: Path, collections: Path) -> None:
        self._namespace = namespace
        self._folder = folder
        self._collections = collections
        self.key = folder / "key"
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)]
        subprocess.run(keygen, check=True)

    @property
    def public_key(self) -> str:
        """The key that nodes must let in."""
        return self.key.with_name("key.pub").read_text(encoding="ascii")

    def inventory(
        self, hosts: Mapping[str, Mapping[str, Any]], canary: Iterable[str], **variables: Any
    ) -> None:
        """Write the inventory: hosts with their own variables, and those of all."""
        everyone = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_python_interpreter": "/usr/bin/python3",
            **variables,
        }
        linkhold = {
            "hosts": dict(hosts),
            "vars": everyone,
            "children": {"linkhold_canary": {"hosts": {name: {} for name in canary}}},
        }
        text = json.dumps({"all": {"children": {"linkhold": linkhold}}})
        (self._folder / "inventory.json").write_text(text, encoding="utf-8")

    def play(self, name: str, *options: str, **extra: Any) -> Ran:
        """Run a playbook of the collection with extra variables and return how it went."""
        words = [str(BIN / "ansible-playbook"), "-i", str(self._folder / "inventory.json")]
        more = ["-e", json.dumps(extra)] if extra else []
        done = subprocess.run(
            self._namespace.command(*words, f"linkhold.linkhold.{name}", *more, *options),
            capture_output=True,
            text=True,
            env=environment(self._folder, self._collections),
            cwd=self._folder,
            timeout=RUN_S,
            check=False,
        )
        said = done.stdout + done.stderr
        hosts = {
            host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)}
            for host, counts in _RECAP.findall(said)
        }
        return Ran(done.returncode, said, hosts)


def environment(folder: Path, collections: Path) -> dict[str, str]:
    """Return the environment of Ansible: nothing of the machine's owner has a say."""
    (folder / "ansible.cfg").touch()
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "PATH": f"{BIN}:{kept.get('PATH', '')}",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "ANSIBLE_HOST_KEY_CHECKING": "false",
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=auto -o ControlPersist=30s -o ConnectTimeout=60"
        " -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        # A node that is gone without a word must not leave its connection here for ever.
        " -o ServerAliveInterval=10 -o ServerAliveCountMax=6",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        "ANSIBLE_TIMEOUT": "60",
    }
