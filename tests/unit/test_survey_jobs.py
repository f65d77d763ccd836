"""Jobs tied to a NIC by name, and cloud-init, from files as NCCL and cloud-init know them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.model.survey import CloudInit, JobsView, Known
from linkhold.survey import cloud_init, jobs
from linkhold.survey.files import Reader
from linkhold.survey.pins import VARIABLES, Syntax, pins, selects

if TYPE_CHECKING:
    from pathlib import Path

NCCL = "NCCL_SOCKET_IFNAME"
OFF = "network: {config: disabled}\n"
CFG = """\
users:
  - default
disable_root: true
cloud_init_modules:
  - seed_random
  - write_files
datasource_list: [NoCloud, None]
"""


class Host:
    """A host's files below a folder."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.put("/proc/cmdline", "ro quiet\n")

    def put(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.base / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        file = self.base / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def run(self, pid: int, **variables: str) -> None:
        """Let a job run with this environment."""
        lines = {"PATH": "/usr/bin", **variables}
        self.put(f"/proc/{pid}/environ", "".join(f"{k}={v}\0" for k, v in lines.items()))
        self.put(f"/proc/{pid}/cmdline", "/usr/bin/python\0-u\0train.py\0--token=x\0")

    def jobs(self) -> JobsView:
        """Return what is tied to eth0 or eth1."""
        return jobs.look(Reader(self.base), ["eth0", "eth1"])

    def cloud_init(self) -> CloudInit:
        """Return whether the network would be written anew."""
        return cloud_init.look(Reader(self.base))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host without jobs and without cloud-init."""
    return Host(tmp_path)


@pytest.fixture
def cloudy(host: Host) -> Host:
    """A host whose cloud-init ran at this boot."""
    host.put("/etc/cloud/cloud.cfg", CFG)
    host.put("/run/cloud-init/enabled", "")
    host.put("/etc/netplan/50-cloud-init.yaml", "network: {version: 2}\n")
    return host


@pytest.mark.parametrize(
    ("value", "variable", "pinned"),
    [
        ("eth0", NCCL, True),
        ("eth", NCCL, True),
        ("e", NCCL, True),
        ("=eth0", NCCL, True),
        ("=eth", NCCL, False),
        ("=eth1,eth0", NCCL, True),
        ("eth0:50000", NCCL, True),
        ("=eth0:50000", NCCL, True),
        ("eth,bond", NCCL, False),
        ("=eth0,bond0", NCCL, False),
        ("bond0", NCCL, False),
        ("ib", NCCL, False),
        ("^docker,lo", NCCL, False),
        ("^bond", NCCL, True),
        ("^=bond0", NCCL, True),
        ("^=bond", NCCL, False),
        ("^bond,eth", NCCL, False),
        ("", NCCL, False),
        ("^", NCCL, False),
        (",,", NCCL, False),
        ("eth0", "GLOO_SOCKET_IFNAME", True),
        ("eth", "GLOO_SOCKET_IFNAME", False),
        ("lo,eth0", "GLOO_SOCKET_IFNAME", True),
        ("eth0", "TP_SOCKET_IFNAME", True),
        ("mlx5_0:1,eth0", "UCX_NET_DEVICES", True),
        ("eth*", "UCX_NET_DEVICES", True),
        ("all", "UCX_NET_DEVICES", False),
        ("mlx5_0:1", "UCX_NET_DEVICES", False),
        ("^bond0", "UCX_NET_DEVICES", True),
        ("eth0", "OMPI_MCA_btl_tcp_if_include", True),
        ("10.0.0.0/8", "OMPI_MCA_btl_tcp_if_include", False),
        ("lo,bond0", "OMPI_MCA_btl_tcp_if_exclude", True),
        ("lo", "OMPI_MCA_btl_tcp_if_exclude", False),
        ("eth0", "MASTER_ADDR", False),
    ],
)
def test_pins(value: str, variable: str, *, pinned: bool) -> None:
    """A setting pins eth0 when it selects eth0 and would not select bond0."""
    assert pins(value, variable, "eth0") is pinned


@given(st.text(), st.sampled_from(sorted(VARIABLES)), st.text())
def test_pins_never_raise(value: str, variable: str, member: str) -> None:
    """Any value has an answer."""
    assert pins(value, variable, member) in {True, False}


NAMES = st.from_regex(r"[a-z]{1,4}[0-9]{0,2}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=8), NAMES)
def test_nccl_against_its_rules(words: list[str], name: str) -> None:
    """Prefixes, exact names and their exclusions, each by its definition."""
    listed = ",".join(words)

    assert selects(listed, Syntax.NCCL, name) is any(name.startswith(word) for word in words)
    assert selects("=" + listed, Syntax.NCCL, name) is (name in words)
    assert selects("^" + listed, Syntax.NCCL, name) is not selects(listed, Syntax.NCCL, name)
    assert selects("^=" + listed, Syntax.NCCL, name) is (name not in words)


@given(NAMES)
def test_what_names_the_bond_pins_nothing(name: str) -> None:
    """Whatever selects the bond too survives the move."""
    assert not pins(f"{name},bond0", NCCL, name)


def test_running_jobs(host: Host) -> None:
    """Each tied process is named with its command, the variable and the NIC."""
    host.run(70, **{NCCL: "eth1"}, MASTER_ADDR="10.0.0.2")
    host.run(71, GLOO_SOCKET_IFNAME="bond0")
    host.put("/proc/72/environ", "")

    found = host.jobs()

    assert [(p.pid, p.command, p.variable, p.value, p.member) for p in found.pins] == [
        (70, "python train.py", NCCL, "eth1", "eth1")
    ]
    assert (found.scanned, found.unread, found.unknown) == (3, 0, ())


def test_prefix_of_both_members(host: Host) -> None:
    """One value may tie to several NICs."""
    host.run(70, **{NCCL: "eth"})

    assert [pin.member for pin in host.jobs().pins] == ["eth0", "eth1"]


def test_containers_have_their_own_eth0(host: Host) -> None:
    """A pod with NCCL_SOCKET_IFNAME=eth0 in its own network namespace is not meant."""
    host.run(70, **{NCCL: "eth0"})
    host.run(71, **{NCCL: "eth0"})
    host.link("/proc/self/ns/net", "net:[4026531840]")
    host.link("/proc/70/ns/net", "net:[4026532500]")
    host.link("/proc/71/ns/net", "net:[4026531840]")

    assert [pin.pid for pin in host.jobs().pins] == [71]


def test_unread_processes_are_counted(host: Host) -> None:
    """What may not be read (here: a link to itself) is not "no setting"."""
    host.link("/proc/70/environ", "environ")

    assert (host.jobs().scanned, host.jobs().unread) == (0, 1)


def test_files_for_later_jobs(host: Host) -> None:
    """Shell files, nccl.conf and /etc/environment; what only a shell knows is said."""
    host.put("/etc/environment", f'PATH="/usr/bin"\n{NCCL}="eth0"\n')
    host.put("/etc/profile.d/mpi.sh", "#!/bin/sh\nexport GLOO_SOCKET_IFNAME=eth1 # rail\n")
    host.put("/etc/profile.d/x.sh", f"export {NCCL}=$(ls /sys/class/net | head -1)\n")
    host.put("/etc/nccl.conf", f"NCCL_DEBUG=WARN\n# {NCCL}=eth0\n{NCCL}=^docker\n")
    host.put("/root/.nccl.conf", f"{NCCL} = =eth1\n")

    found = host.jobs()

    assert [(pin.pid, pin.source, pin.member) for pin in found.pins] == [
        (0, "/etc/environment", "eth0"),
        (0, "/root/.nccl.conf", "eth1"),
        (0, "/etc/profile.d/mpi.sh", "eth1"),
    ]
    assert "/etc/profile.d/x.sh" in found.unknown[0]


def test_without_cloud_init(host: Host) -> None:
    """Not installed: it writes nothing."""
    assert host.cloud_init().rewrites is Known.NO


def test_cloud_init_that_ran(cloudy: Host) -> None:
    """It ran at this boot and left a file."""
    found = cloudy.cloud_init()

    assert (found.rewrites, found.outputs) == (Known.YES, ("/etc/netplan/50-cloud-init.yaml",))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/cloud/cloud-init.disabled", ""),
        ("/var/lib/cloud/data/upgraded-network", ""),
        ("/proc/cmdline", "ro cloud-init=disabled\n"),
        ("/proc/cmdline", "ro network-config=disabled\n"),
        ("/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg", OFF),
        ("/etc/cloud/cloud.cfg.d/90.cfg", "network:\n  config: disabled\n"),
    ],
)
def test_cloud_init_is_off(cloudy: Host, path: str, text: str) -> None:
    """Every documented way to switch it, or its network, off."""
    cloudy.put(path, text)
    found = cloudy.cloud_init()

    assert found.rewrites is Known.NO
    assert found.disabled_by


def test_cloud_init_is_masked(cloudy: Host) -> None:
    """Masked units cannot start."""
    cloudy.link("/etc/systemd/system/cloud-init-local.service", "/dev/null")

    assert cloudy.cloud_init().rewrites is Known.NO


def test_a_later_file_wins(cloudy: Host) -> None:
    """``disabled`` in 50 is undone by a configuration in 99."""
    cloudy.put("/etc/cloud/cloud.cfg.d/50-off.cfg", OFF)
    cloudy.put("/etc/cloud/cloud.cfg.d/99-net.cfg", "network: {version: 2, ethernets: {}}\n")
    found = cloudy.cloud_init()

    assert found.rewrites is Known.YES
    assert "99-net.cfg" in found.reason


def test_the_initramfs_comes_first(cloudy: Host) -> None:
    """What the initramfs wrote counts before /etc/cloud."""
    cloudy.put("/etc/cloud/cloud.cfg.d/99-off.cfg", OFF)
    cloudy.put("/run/net-eth0.conf", "DEVICE='eth0'\n")

    assert cloudy.cloud_init().rewrites is Known.UNKNOWN


@pytest.mark.parametrize("text", ["network: {config: [", "\0", "- a\n- b\n: {"])
def test_broken_file(cloudy: Host, text: str) -> None:
    """What cannot be parsed may hold anything."""
    cloudy.put("/etc/cloud/cloud.cfg.d/90.cfg", text)

    assert cloudy.cloud_init().rewrites is Known.UNKNOWN


@pytest.mark.parametrize("text", ["", "- a\n", "network:\n", "network: disabled\n", "7\n"])
def test_odd_files(cloudy: Host, text: str) -> None:
    """YAML that is no mapping, or no network, changes nothing."""
    cloudy.put("/etc/cloud/cloud.cfg.d/90.cfg", text)

    assert cloudy.cloud_init().rewrites is Known.YES


def test_installed_and_nothing_more(host: Host) -> None:
    """Without a sign of a start nobody knows; an enabled unit is a sign."""
    host.put("/etc/cloud/cloud.cfg", CFG)
    assert host.cloud_init().rewrites is Known.UNKNOWN

    unit = "cloud-init.service"
    host.link(f"/etc/systemd/system/cloud-init.target.wants/{unit}", f"/lib/systemd/system/{unit}")
    assert host.cloud_init().rewrites is Known.YES


def test_outputs_everywhere(cloudy: Host) -> None:
    """Files of all renderers are found; ifcfg files by the mark in them."""
    folder = "/etc/NetworkManager/system-connections"
    cloudy.put(f"{folder}/cloud-init-eth0.nmconnection", "")
    cloudy.put(f"{folder}/office.nmconnection", "")
    scripts = "/etc/sysconfig/network-scripts"
    mark = "# Created by cloud-init on instance boot automatically, do not edit.\n"
    cloudy.put(f"{scripts}/ifcfg-eth0", mark)
    cloudy.put(f"{scripts}/ifcfg-eth1", "DEVICE=eth1\n")

    assert cloudy.cloud_init().outputs == (
        "/etc/netplan/50-cloud-init.yaml",
        f"{folder}/cloud-init-eth0.nmconnection",
        f"{scripts}/ifcfg-eth0",
    )


def test_what_a_user_names_is_opened_if_it_is_a_file(tmp_path: Path) -> None:
    """A FIFO would be waited for, and to open a device may do something: neither is opened."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "file").write_text("NCCL_DEBUG=INFO\n")
    reader = Reader(tmp_path)

    assert reader.chosen("/file") == "NCCL_DEBUG=INFO\n"
    assert [reader.chosen(f"/{name}") for name in ("fifo", "device", "none", "")] == [None] * 4
    assert reader.problems[:2] == ["/fifo: is no regular file", "/device: is no regular file"]


@pytest.mark.parametrize("name", ["/proc/kmsg", "/sys/kernel/uevent_seqnum", "/proc/version"])
def test_a_file_of_the_kernel_is_not_read_for_a_user(name: str) -> None:
    """/proc/kmsg is a regular file, and a read of it waits and takes lines from syslog.

    In a process of its own, which is ended when it waits.
    """
    code = (
        "import builtins, sys\n"
        "from pathlib import Path\n"
        "from linkhold.survey.files import Reader\n"
        "builtins.open = None\n"
        "reader = Reader(Path('/'))\n"
        "print(repr(reader.chosen(sys.argv[1])), reader.problems)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name], timeout=20, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"None ['{name}: is a file of the kernel']\n"
