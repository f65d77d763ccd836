"""Who sets a sysctl on a host, told from its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from linkhold.survey.files import Reader
from linkhold.survey.sysctl_owners import owners

if TYPE_CHECKING:
    from pathlib import Path

KEY = "tcp_keepalive_time"


def put(root: Path, name: str, text: str) -> None:
    """Write a file of the host."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(root: Path) -> tuple[str, ...]:
    """Return the owners."""
    return owners(Reader(root), KEY)


def test_the_file_that_is_read_last_wins(tmp_path: Path) -> None:
    """Files of all folders count in the order of their names, whatever their folder."""
    put(tmp_path, "/etc/sysctl.d/10-a.conf", "net.ipv4.tcp_keepalive_time = 100\n")
    put(tmp_path, "/usr/lib/sysctl.d/90-b.conf", "net/ipv4/tcp_keepalive_time=200\n")

    assert found(tmp_path) == (
        "/usr/lib/sysctl.d/90-b.conf (200)",
        "/etc/sysctl.d/10-a.conf (100)",
    )


def test_a_file_hides_one_of_the_same_name_in_a_later_folder(tmp_path: Path) -> None:
    """/etc before /run before /usr/lib."""
    put(tmp_path, "/etc/sysctl.d/50-x.conf", "# nothing\n")
    put(tmp_path, "/usr/lib/sysctl.d/50-x.conf", "net.ipv4.tcp_keepalive_time = 1\n")

    assert found(tmp_path) == ()


def test_patterns_errors_to_ignore_and_comments_are_understood(tmp_path: Path) -> None:
    """``-`` before a key, ``*`` in it, ``;`` and ``#`` at the beginning of a line."""
    put(tmp_path, "/etc/sysctl.d/1.conf", "-net.ipv4.tcp_keep*_time = 5\n")
    put(tmp_path, "/etc/sysctl.conf", "; net.ipv4.tcp_keepalive_time = 6\n#net.ipv4.x=1\n=\n")

    assert found(tmp_path) == ("/etc/sysctl.d/1.conf (5)",)


def test_the_active_profile_of_tuned_and_what_it_includes(tmp_path: Path) -> None:
    """A running tuned sets its values after every file; includes count, circles end."""
    put(tmp_path, "/etc/tuned/active_profile", "net-hpc\n")
    put(tmp_path, "/etc/tuned/net-hpc/tuned.conf", "[main]\ninclude=base\n")
    text = "[main]\ninclude=net-hpc\n[sysctl]\nnet.ipv4.tcp_keepalive_time = 300\n"
    put(tmp_path, "/usr/lib/tuned/base/tuned.conf", text)

    assert found(tmp_path) == ("tuned profile net-hpc, /usr/lib/tuned/base/tuned.conf (300)",)


def test_the_tuning_plugin_of_cni(tmp_path: Path) -> None:
    """Containers get their sysctls from a CNI configuration; a damaged one is passed over."""
    plugins = [{"type": "bridge"}, {"type": "tuning", "sysctl": {f"net.ipv4.{KEY}": "44"}}]
    put(tmp_path, "/etc/cni/net.d/10-pods.conflist", json.dumps({"plugins": plugins}))
    put(tmp_path, "/etc/cni/net.d/20-bad.conf", "{")

    assert found(tmp_path) == ("CNI /etc/cni/net.d/10-pods.conflist (44)",)
