"""The section ``paths:``: what it accepts, and what it says about mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkhold.config import Settings, load
from linkhold.config.paths import MetadataProbe, PathTarget
from linkhold.model import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

ONE_WAY = "allowed: one of ping, tcp, http"
MISTAKES = [
    ("targets: [{name: a}]", f"paths.targets[0]: nothing says how to ask it; {ONE_WAY}"),
    (
        "targets: [{name: a, ping: 192.0.2.1, tcp: 'h:1'}]",
        f"paths.targets[0].tcp: ping and tcp are given; {ONE_WAY}; see paths.targets[0].ping",
    ),
    (
        "targets: [{name: a, ping: h}, {name: a, ping: i}]",
        "paths.targets[1].name: 'a' is given twice; allowed: a name once",
    ),
    ("targets: [{name: a, tcp: h}]", "paths.targets[0].tcp: 'h' is no host:port; allowed: host:"),
    ("targets: [{name: a, tcp: 'fe80::1:80'}]", "'fe80::1:80' is no host:port"),
    ("targets: [{name: a, tcp: 'h:0'}]", "'h:0' is no host:port"),
    ("targets: [{name: a, http: 'ftp://h/'}]", "'ftp://h/' is no URL of http or https"),
    ("targets: [{name: a, http: 'http://u:p@h/'}]", "'http://u:p@h/' is no URL of http or https"),
    ("targets: [{name: a, http: 'http://[h/'}]", "'http://[h/' is no URL of http or https"),
    ("targets: [{name: a, http: 'http://h:x/'}]", "'http://h:x/' is no URL of http or https"),
    ("metadata: off", "paths.metadata: off is unknown; allowed: auto, always, never"),
    (
        "{interval_ok: 2s, interval_trouble: 5s}",
        "paths.interval_trouble: 5s is less often than interval_ok, 2s; allowed: at most that",
    ),
]


def read(path: Path, section: str) -> Settings:
    """Return the settings of a file with this section ``paths:``."""
    path.write_text(f"paths: {section}\n" if section[0] == "{" else f"paths: {{{section}}}\n")
    return load(path)


@pytest.mark.parametrize(("section", "message"), MISTAKES)
def test_mistakes_say_where_what_and_what_is_allowed(
    tmp_path: Path, section: str, message: str
) -> None:
    """Each mistake of the section has its own message."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path / "c.yaml", section)

    assert len(caught.value.mistakes) == 1
    assert message in caught.value.mistakes[0]


def test_ignored_link_cannot_be_asked_through(tmp_path: Path) -> None:
    """A target through a link that is not watched contradicts ``links:``."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "links: {eth9: {role: ignore}}\npaths: {targets: [{name: a, ping: h, link: eth9}]}\n"
    )

    with pytest.raises(ConfigError, match="'eth9' has the role ignore"):
        load(path)


def test_what_is_right_is_read(tmp_path: Path) -> None:
    """Targets of each kind, names of DNS and times with units are read as they are written."""
    text = (
        "{targets: [{name: nfs, tcp: '[2001:db8::1]:2049', storage: true}, {name: web, "
        "http: 'https://api.example.org:8443/health?x=1', link: eth1}], "
        "dns: {names: [api.example.org]}, interval_ok: 30s, metadata: never}"
    )
    paths = read(tmp_path / "c.yaml", text).paths

    assert paths.targets[0] == PathTarget("nfs", tcp="[2001:db8::1]:2049", storage=True)
    assert paths.targets[1].link == "eth1"
    assert paths.dns.names == ("api.example.org",)
    assert (paths.interval_ok, paths.interval_trouble) == (30.0, 1.0)
    assert paths.metadata is MetadataProbe.NEVER
