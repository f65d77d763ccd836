"""Tells what a node has, before anything is changed on it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: Tells what a node has before linkhold is installed or changed
description:
  - Reads only. What is found is judged by the role's preflight, with a reason for each refusal.
version_added: "0.1.0"
author: linkhold contributors
options:
  hosts:
    description: The known distributions, by C(id version) as in os-release(5).
    type: dict
    required: true
  like:
    description: Rebuilds, by id, and the id that they are like.
    type: dict
    default: {}
extends_documentation_fragment: []
attributes:
  check_mode:
    support: full
    description: It changes nothing in any mode.
"""
EXAMPLES = r"""
- name: Look at the node
  linkhold.linkhold.node_info:
    hosts: "{{ _linkhold_hosts }}"
    like: "{{ _linkhold_like }}"
  register: _linkhold_node
"""
RETURN = r"""
os:
  description: The distribution and its version.
  returned: always
  type: str
  sample: debian 12
host:
  description: The entry of O(hosts) that fits, empty for none.
  returned: always
  type: str
root:
  description: Whether the task runs as root.
  returned: always
  type: bool
systemd:
  description: Whether systemd runs this node.
  returned: always
  type: bool
python:
  description: The interpreter for linkhold, empty for none.
  returned: always
  type: str
missing:
  description: Packages that are missing.
  returned: always
  type: list
free_mb:
  description: Megabytes that are free for C(/opt/linkhold) and C(/var/lib/linkhold).
  returned: always
  type: dict
foreign:
  description: Who serves linkhold's sockets though systemd did not start it, empty for nobody.
  returned: always
  type: str
installed:
  description: Whether linkhold is installed as a service.
  returned: always
  type: bool
unread:
  description: Files of the configuration that are newer than what the running agent has read.
  returned: always
  type: list
mode:
  description: The mode of the configuration in place, empty for none.
  returned: always
  type: str
state:
  description:
    - Name, site and fingerprints of alerts of the agent, empty when none runs. The alerts are those
      that a gate which has not opened yet began with, where one was tried in the last day.
  returned: always
  type: dict
"""

import json
import os
import re
import shlex
import shutil
import socket
import struct
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

RUN = "/run/linkhold"
INSTALLED = ("/usr/local/bin/linkhold", "/opt/linkhold/current/bin/python")
FOLDER = "/etc/linkhold"
CONFIG = f"{FOLDER}/linkhold.yaml"
GATE = "/var/lib/linkhold/gate.json"
GATE_S = 86_400
SYSTEMD = "/run/systemd/system"
SOCKETS = {
    "mqtt/broker.sock": "linkhold-broker.service",
    "control.sock": "linkhold.service",
}
FOUND = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STALE_S = 15
MB = 1_000_000


def main() -> None:
    """Answer the task."""
    arguments = {"hosts": {"type": "dict", "required": True}, "like": {"type": "dict"}}
    module = AnsibleModule(arguments, supports_check_mode=True)
    release = os_release()
    key = host_key(release, module.params["hosts"], module.params["like"] or {})
    host = module.params["hosts"].get(key, {"python": [], "packages": {}})
    module.exit_json(
        changed=False,
        os=f"{release.get('ID', 'unknown')} {release.get('VERSION_ID', '')}".strip(),
        host=key,
        root=os.geteuid() == 0,
        systemd=Path(SYSTEMD).is_dir(),
        python=next(filter(None, (shutil.which(one, path=FOUND) for one in host["python"])), ""),
        missing=missing(host["packages"]),
        free_mb={place: free_mb(place) for place in ("/opt/linkhold", "/var/lib/linkhold")},
        foreign=foreign(module),
        installed=all(Path(path).exists() for path in INSTALLED),
        unread=unread(changed_s(module)),
        mode=mode(),
        state=state(),
    )


def os_release() -> dict[str, str]:
    """Return the assignments of os-release(5)."""
    found = {}
    for line in read("/etc/os-release").splitlines():
        name, equals, value = line.partition("=")
        if equals:
            found[name] = "".join(shlex.split(value)[:1])
    return found


def host_key(release: dict[str, str], hosts: dict[str, Any], like: dict[str, str]) -> str:
    """Return the key of the distribution that this is, empty for none; 9.4 is a 9."""
    id_ = release.get("ID", "")
    wanted = like.get(id_, id_)
    version = release.get("VERSION_ID", "")
    for key in hosts:
        name, known = key.split(" ")
        if name == wanted and (version == known or version.startswith(f"{known}.")):
            return key
    return ""


def missing(packages: dict[str, str]) -> list[str]:
    """Return the packages none of whose files is there."""
    return sorted(
        name
        for name, paths in packages.items()
        if not any(Path(path).exists() for path in paths.split("|"))
    )


def free_mb(name: str) -> int:
    """Return the megabytes free where ``name`` is, or will be."""
    place = Path(name)
    about = os.statvfs(next(one for one in (place, *place.parents) if one.exists()))
    return about.f_bavail * about.f_frsize // MB


def foreign(module: Any) -> str:
    """Return who listens on a socket of linkhold's that its unit did not open."""
    for name, unit in SOCKETS.items():
        listener = listener_of(f"{RUN}/{name}")
        if listener:
            said = shown(module, unit, "--property=MainPID", "--value")
            if said.strip() != str(listener):
                return f"process {listener} listens on {RUN}/{name}, and is not {unit}"
    return ""


def shown(module: Any, unit: str, *options: str) -> str:
    """Return what systemd says of a unit, empty where it does not run this node.

    There may be no systemctl then, and run_command() would end the module before the preflight can
    say what is missing; the folder is the test of sd_booted(3).
    """
    if not Path(SYSTEMD).is_dir():
        return ""
    _code, said, _error = module.run_command(["systemctl", "show", *options, unit])
    return str(said)


def listener_of(path: str) -> int:
    """Return the process that listens on a Unix socket, 0 for none; it is asked nothing."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(2)
        try:
            one.connect(path)
            # SO_PEERCRED of a connection is who called listen(), unix(7).
            credentials = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        except OSError:
            return 0
    return int(struct.unpack("3i", credentials)[0])


def changed_s(module: Any) -> float:
    """Return when the agent was started or reloaded last, in seconds since 1970; 0 for none."""
    names = "ActiveState,StateChangeTimestampMonotonic"
    said = shown(module, "linkhold.service", f"--property={names}")
    found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    if found.get("ActiveState") != "active":
        return 0
    changed_us = int(found["StateChangeTimestampMonotonic"])
    return time.time() - time.clock_gettime(time.CLOCK_MONOTONIC) + changed_us / 1e6


def unread(since_s: float, folder: str = FOLDER) -> list[str]:
    """Return the files that were written after the agent had read them: a run was cut short."""
    now_s = time.time()
    return sorted(
        path.name
        for path in Path(folder).glob("*")
        if path.is_file() and path.name != "relay.yaml"
        # A file of the future is that of a clock which was set back, and would never be read.
        if since_s and since_s < path.stat().st_mtime <= now_s
    )


def mode() -> str:
    """Return the mode that the configuration names, ``observe`` where it names none."""
    text = read(CONFIG)
    found = re.search(r"(?m)^mode:\s*['\"]?(\w+)", text)
    return (found.group(1) if found else "observe") if text else ""


def state() -> dict[str, Any]:
    """Return what counts later of the agent's state, empty when it is not fresh."""
    try:
        document = json.loads(read(f"{RUN}/state.json"))
        age_s = time.clock_gettime(time.CLOCK_MONOTONIC) - document["mono_ns"] / 1e9
        same_boot = document["boot_id"] == read("/proc/sys/kernel/random/boot_id").strip()
        if not same_boot or age_s > STALE_S:
            return {}
        fingerprints = [alert["fingerprint"] for alert in document["alerts"]]
        alerts = before(fingerprints)
        return {"site": document["site"], "node": document["node"], "alerts": alerts}
    except (KeyError, TypeError, ValueError):
        return {}


def before(now: list[str]) -> list[str]:
    """Return the alerts with which a gate began that has not opened yet; those of now for none.

    A gate that was not tried for a day is one of a rollout that was given up, as the gate has it.
    """
    try:
        age_s = time.time() - Path(GATE).stat().st_mtime
        kept = json.loads(read(GATE)) if abs(age_s) < GATE_S else None
    except (OSError, ValueError):
        return now
    return kept if isinstance(kept, list) else now


def read(path: str) -> str:
    """Return the text of a file, empty for none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
