"""What a right configuration means, and which files are read at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from linkhold.config import (
    BrokerSettings,
    LinkSettings,
    Mode,
    Role,
    Settings,
    TlsSettings,
    WayOutSettings,
    document,
    load,
    loader,
)
from linkhold.model import ConfigError

FULL = """\
site: fra1
node: "7"
mode: enforce
links:
  eth2: {role: fabric, expected: on}
  bond0.100: {role: ignore}
  eth3:
ways_out:
  - {name: storage, link: eth2, target: "2001:db8::1"}
mqtt:
  local: no
  keepalive_s: 5
  connect_jitter_s: 1e1
  fleet:
    - host: broker.example.org
      tls: {}
    - host: 192.0.2.7
      username: me
policy: {settle_s: 0.5}
"""


@pytest.fixture(params=["CSafeLoader", "SafeLoader"], autouse=True)
def either_loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with libyaml and with the parser in Python; they differ in details."""
    monkeypatch.setattr(document, "LOADER", getattr(yaml, request.param))


def read(tmp_path: Path, content: bytes) -> Settings:
    """Load a file with this content."""
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    return load(path)


def refusal(path: Path) -> str:
    """Return the one mistake that loading ``path`` ends with."""
    with pytest.raises(ConfigError) as caught:
        load(path)
    (mistake,) = caught.value.mistakes
    return mistake


def test_full(tmp_path: Path) -> None:
    """Every kind of value is read as what it is."""
    got = read(tmp_path, FULL.encode())

    assert (got.site, got.node, got.mode) == ("fra1", "7", Mode.ENFORCE)
    assert got.links == {
        "eth2": LinkSettings(role=Role.FABRIC, expected=True),
        "bond0.100": LinkSettings(role=Role.IGNORE),
        "eth3": LinkSettings(),
    }
    assert got.ways_out == (WayOutSettings("storage", "eth2", "2001:db8::1"),)
    assert got.mqtt.fleet == (
        BrokerSettings("broker.example.org", tls=TlsSettings()),
        BrokerSettings("192.0.2.7", username="me"),
    )
    assert (got.mqtt.local, got.mqtt.keepalive_s, got.mqtt.connect_jitter_s) == (False, 5, 10.0)
    assert got.policy.settle_s == 0.5


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"# nothing\n",
        b"---\n",
        b"{}",
        b"null",
        b"mqtt:\nlinks:\nways_out:\npolicy:\n",
        b"\xef\xbb\xbfmqtt:\r\n  fleet:\r\n",
        b"%YAML 1.2\n---\nmqtt: {}\n...\n",
    ],
)
def test_nothing_said_means_the_defaults(tmp_path: Path, content: bytes) -> None:
    """An empty file, or sections without content, are the defaults."""
    assert read(tmp_path, content) == Settings()


def test_bom_and_crlf(tmp_path: Path) -> None:
    """A file from a Windows editor is read as any other."""
    assert read(tmp_path, b"\xef\xbb\xbfsite: a\r\nnode: b\r\n") == Settings(site="a", node="b")


def test_numbers_keep_their_type(tmp_path: Path) -> None:
    """A whole number for seconds becomes a float, as the dataclass says."""
    got = read(tmp_path, b"policy: {settle_s: 3}")

    assert isinstance(got.policy.settle_s, float)


def test_default_path_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to write a file: without one the defaults apply."""
    monkeypatch.setattr(loader, "DEFAULT_PATH", tmp_path / "none.yaml")

    assert load() == Settings()


def test_dangling_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to a file that is gone is a mistake: somebody meant to configure something."""
    path = tmp_path / "c.yaml"
    path.symlink_to(tmp_path / "gone")
    monkeypatch.setattr(loader, "DEFAULT_PATH", path)
    with pytest.raises(ConfigError, match="does not exist"):
        load()


def test_named_file_must_exist(tmp_path: Path) -> None:
    """A file that somebody named and that is not there is a mistake."""
    assert refusal(tmp_path / "none.yaml") == f"{tmp_path}/none.yaml: does not exist"


def test_directory(tmp_path: Path) -> None:
    """A folder is no configuration."""
    assert refusal(tmp_path) == f"{tmp_path}: is a directory"


@pytest.mark.timeout(20)
def test_fifo_does_not_hang(tmp_path: Path) -> None:
    """A FIFO without a writer would block a plain open for ever."""
    os.mkfifo(tmp_path / "fifo")

    assert refusal(tmp_path / "fifo") == f"{tmp_path}/fifo: is no regular file"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null"])
def test_devices(path: str) -> None:
    """Devices are refused before they are opened."""
    assert refusal(Path(path)) == f"{path}: is no regular file"


def test_too_large(tmp_path: Path) -> None:
    """Reading stops after 1 MiB."""
    path = tmp_path / "c.yaml"
    path.write_bytes(b"#" * 10_000_000)

    assert refusal(path) == f"{path}: is larger than 1048576 bytes"


def test_unreadable_and_odd_names(tmp_path: Path) -> None:
    """Names that the kernel refuses, and names with a line break, still give one clean line."""
    assert refusal(tmp_path / ("a" * 300)).endswith("cannot be read: File name too long")
    assert refusal(Path("/a\0b")).endswith("is no file name: it holds a NUL byte")
    assert refusal(tmp_path / "a\nb") == f"'{tmp_path}/a\\nb': does not exist"


def test_symlink_loop(tmp_path: Path) -> None:
    """A link to itself is reported with the system's own words."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    assert "Too many levels" in refusal(tmp_path / "loop")


@pytest.mark.parametrize(
    ("text", "seconds"), [("20m", 1200.0), ("1.5 h", 5400.0), ("90", 90.0), ("1d", 86400.0)]
)
def test_a_time_is_written_with_its_unit_or_in_seconds(
    tmp_path: Path, text: str, seconds: float
) -> None:
    """Where the key's name has no unit, the value has one; both bounds are allowed."""
    path = tmp_path / "c.yaml"
    path.write_text(
        f"keepalive: {{survive: {text}}}\npaths: {{interval_trouble: 0.2s, interval_ok: 1h}}\n"
    )
    settings = load(path)

    assert settings.keepalive.survive == seconds
    assert (settings.paths.interval_trouble, settings.paths.interval_ok) == (0.2, 3600.0)
