"""Who holds which socket and what a network namespace is called, from files as /proc has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkhold.survey import namespaces, socket_owners
from linkhold.survey.files import Reader

if TYPE_CHECKING:
    from pathlib import Path

ID = "0123456789abcdef" * 4


class Host:
    """A host's /proc below a folder."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.reader = Reader(base)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link such as those of /proc."""
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def process(self, pid: int, namespace: int, cgroup: str = "0::/", **fds: str) -> None:
        """Let a process run, with descriptors named ``fd3``, ``fd4``, ..."""
        self.link(f"proc/{pid}/ns/net", f"net:[{namespace}]")
        (self.base / f"proc/{pid}/cgroup").write_text(f"{cgroup}\n")
        (self.base / f"proc/{pid}/comm").write_text("python\n")
        (self.base / f"proc/{pid}/fd").mkdir()
        for name, target in fds.items():
            self.link(f"proc/{pid}/fd/{name[2:]}", target)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host whose first process and whose caller are in namespace 1."""
    made = Host(tmp_path)
    made.process(1, 1)
    made.link("proc/self/ns/net", "net:[1]")
    return made


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        (f"0::/docker/{ID}", "container 0123456789ab"),
        (f"12:pids:/kubepods/burstable/pod1-2/{ID}", "container 0123456789ab"),
        (f"0::/kubepods.slice/cri-containerd-{ID}.scope", "container 0123456789ab"),
        (f"0::/machine.slice/libpod-{ID}.scope/container", "container 0123456789ab"),
        (f"0::/kubepods.slice/{ID}:cri-containerd:{ID}", "container 0123456789ab"),
        ("0::/lxc.payload.web1/init.scope", "container web1"),
        ("0::/machine.slice/machine-db.scope/payload", "container db"),
        ("0::/system.slice/ssh.service", ""),
        (f"0::/system.slice/x{ID}.service", ""),
        ("", ""),
    ],
)
def test_containers(cgroup: str, expected: str) -> None:
    """The id that container tools show is in the cgroup of Docker, Podman and Kubernetes."""
    assert namespaces.container(cgroup) == expected


def test_namespaces_by_their_processes(host: Host) -> None:
    """Each namespace once, our own first, named by its first process, and a path that opens it."""
    host.process(7, 1)
    host.process(30, 2, f"0::/docker/{ID}")
    host.process(31, 2)
    host.process(40, 3)
    found = namespaces.find(host.reader)

    assert [(one.inode, one.path, one.name, one.pids) for one in found.found] == [
        (1, "/proc/self/ns/net", "host", (1, 7)),
        (2, "/proc/30/ns/net", "container 0123456789ab", (30, 31)),
        (3, "/proc/40/ns/net", "of pid 40 (python)", (40,)),
    ]
    assert found.unread == 0


def test_a_process_that_ended_is_not_hidden(host: Host) -> None:
    """A zombie has no namespace any more, and nobody hides it."""
    (host.base / "proc/50").mkdir()

    assert namespaces.find(host.reader).unread == 0


def test_sockets_and_their_processes(host: Host) -> None:
    """A socket that was handed on by fork has both processes; files are no sockets."""
    host.process(9, 1, fd3="socket:[77]", fd4="socket:[77]", fd5="/dev/null", fd6="pipe:[78]")
    host.process(5, 1, fd3="socket:[77]", fd4="socket:[79]")

    assert socket_owners.owners(host.reader).by_inode == {77: (5, 9), 79: (5,)}
    assert socket_owners.owners(host.reader, [9, 4711]).by_inode == {77: (9,)}
