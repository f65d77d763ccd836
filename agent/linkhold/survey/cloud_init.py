"""Whether cloud-init would write the network anew at the next boot.

After cloud-init's documentation ("Networking config", "How to disable cloud-init") and its
stages.py, _find_networking_config: the first source that has a configuration, or is ``disabled``,
counts: the kernel's command line, then what the initramfs wrote (/run/net-*.conf), then
/etc/cloud. With the defaults it writes only for a new instance id; some datasources at every boot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from linkhold.config.document import compose
from linkhold.model.survey import CloudInit, Known

if TYPE_CHECKING:
    from linkhold.survey.files import Reader

MAIN, FOLDER = "/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d"
DISABLED_FILE = "/etc/cloud/cloud-init.disabled"
UPGRADED = "/var/lib/cloud/data/upgraded-network"
OUTPUTS = (
    ("/etc/netplan", "50-cloud-init", ".yaml"),
    ("/etc/network/interfaces.d", "50-cloud-init", ""),
    ("/etc/NetworkManager/system-connections", "cloud-init-", ".nmconnection"),
    ("/etc/systemd/network", "10-cloud-init-", ".network"),
)
MARKED = ("/etc/sysconfig/network-scripts", "/etc/sysconfig/network")
MARK = "# Created by cloud-init"
UNITS = ("cloud-init-local.service", "cloud-init-main.service", "cloud-init.service")
WANTS = (
    "/etc/systemd/system/cloud-init.target.wants",
    "/etc/systemd/system/multi-user.target.wants",
    "/run/systemd/generator.early/multi-user.target.wants",
    "/run/systemd/generator/multi-user.target.wants",
)
Verdict = tuple[Known, str]


@dataclass(frozen=True)
class _Setting:
    """The ``network:`` of /etc/cloud: ``disabled``, a configuration, or none; and its file."""

    file: str = ""
    disabled: bool = False
    unread: tuple[str, ...] = ()


def look(reader: Reader) -> CloudInit:
    """Return whether cloud-init would write the network, and the files it has written."""
    outputs = _outputs(reader)
    before = len(reader.problems)
    off = _off(reader)
    if off:
        return CloudInit(Known.NO, f"off by {off}", outputs, off)
    setting = _setting(reader)
    problems = (*setting.unread, *reader.problems[before:])
    if setting.disabled:
        return _disabled_network(reader, setting, outputs, problems)
    if problems:
        return CloudInit(Known.UNKNOWN, "; ".join(problems), outputs)
    verdict, reason = _enabled(reader, setting)
    return CloudInit(verdict, reason, outputs)


def _off(reader: Reader) -> str:
    """Return what keeps all of cloud-init, or its work on the network, off; empty for nothing."""
    if not reader.exists(MAIN) and not reader.exists("/usr/bin/cloud-init"):
        return "not being installed"
    words = (reader.text("/proc/cmdline") or "").split()
    for word in ("cloud-init=disabled", "network-config=disabled"):
        if word in words:
            return f"{word} on the kernel's command line"
    for path in (DISABLED_FILE, UPGRADED):
        if reader.exists(path):
            return path
    masked = [u for u in UNITS if reader.link(f"/etc/systemd/system/{u}") == "/dev/null"]
    return f"the mask of {masked[0]}" if masked else ""


def _disabled_network(
    reader: Reader, setting: _Setting, outputs: tuple[str, ...], problems: tuple[str, ...]
) -> CloudInit:
    """What came before /etc/cloud in cloud-init's order would win over ``disabled`` there."""
    words = (reader.text("/proc/cmdline") or "").split()
    earlier = [word for word in words if word.startswith("network-config=")]
    earlier += [f"/run/{name}" for name in reader.names("/run") if _is_klibc(name)]
    off = f"network: {{config: disabled}} in {setting.file}"
    if earlier:
        reason = f"{off}, but {earlier[0]} comes before it"
        return CloudInit(Known.UNKNOWN, reason, outputs)
    if problems:
        return CloudInit(Known.UNKNOWN, "; ".join((off, *problems)), outputs)
    return CloudInit(Known.NO, f"off by {off}", outputs, off)


def _is_klibc(name: str) -> bool:
    return name.startswith(("net-", "net6-")) and name.endswith(".conf")


def _enabled(reader: Reader, setting: _Setting) -> Verdict:
    """Whether it is started at boot; its generator leaves a note of what it decided last time."""
    given = f" (with the network of {setting.file})" if setting.file else ""
    if reader.exists("/run/cloud-init/enabled"):
        return Known.YES, f"cloud-init ran at this boot and may write the network again{given}"
    for folder in WANTS:
        for unit in (*UNITS, "cloud-init.target"):
            if reader.exists(f"{folder}/{unit}"):
                return Known.YES, f"{folder}/{unit} starts it at boot{given}"
    if reader.exists("/run/cloud-init/disabled"):
        return Known.UNKNOWN, "it found no datasource at this boot; at the next it looks again"
    return Known.UNKNOWN, "it is installed, and nothing shows whether it starts at boot"


def _setting(reader: Reader) -> _Setting:
    """Return ``network:`` of all files merged: of several, the last one that has it counts."""
    found, unread = _Setting(), []
    for path in (MAIN, *reader.files(FOLDER, ".cfg")):
        text = reader.text(path)
        if text is None:
            continue
        # Not yaml.safe_load(): aliases and nesting cost it time and memory without end.
        document = compose(text.encode("utf-8", "replace"))
        if document.mistakes:
            line, problem = document.mistakes[0]
            unread.append(f"{path}:{line}: {' '.join(problem.split())[:120]}")
            continue
        network = _mapping(document.root).get("network")
        if isinstance(network, yaml.MappingNode):
            config = _mapping(network).get("config")
            disabled = isinstance(config, yaml.ScalarNode) and config.value == "disabled"
            found = _Setting(path, disabled=disabled)
    return _Setting(found.file, found.disabled, tuple(unread))


def _mapping(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """Return the entries of a mapping by key; none of anything else."""
    entries = node.value if isinstance(node, yaml.MappingNode) else []
    return {str(key.value): value for key, value in entries}


def _outputs(reader: Reader) -> tuple[str, ...]:
    found = [
        f"{folder}/{name}"
        for folder, start, end in OUTPUTS
        for name in reader.names(folder)
        if name.startswith(start) and name.endswith(end)
    ]
    for folder in MARKED:
        marked = (f for f in reader.files(folder) if f.startswith(f"{folder}/ifcfg-"))
        found += [file for file in marked if MARK in (reader.text(file) or "")]
    return tuple(found)
