"""What the controller says about the certificate of a node before it is handed out."""

from __future__ import annotations

import base64
import datetime as dt
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from cryptography.exceptions import UnsupportedAlgorithm

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

PLUGIN = Path(__file__).parents[2] / "ansible/plugins/filter/certificate_problem.py"
NOW = dt.datetime.now(dt.timezone.utc)
DAY = dt.timedelta(days=1)
# Object identifiers in DER: the curve of trustme's keys, and one that no curve has.
P256 = bytes.fromhex("06082a8648ce3d030107")
NO_CURVE = bytes.fromhex("06082a8648ce3d030177")


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    """The file of the filter."""
    spec = importlib.util.spec_from_file_location("certificate_problem", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def problem(plugin: ModuleType) -> Callable[[str, str, str], str]:
    """The filter."""
    found: Callable[[str, str, str], str] = plugin.FilterModule().filters()["certificate_problem"]
    return found


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """The fleet's CA."""
    return trustme.CA()


def issue(folder: Path, authority: trustme.CA, **wanted: Any) -> tuple[str, str]:
    """Return the path of a certificate, and the text of its key."""
    leaf = authority.issue_cert(**{"common_name": "n1", **wanted})
    path = folder / "node.pem"
    path.write_bytes(b"".join(pem.bytes() for pem in leaf.cert_chain_pems))
    return str(path), leaf.private_key_pem.bytes().decode()


def test_a_right_one_has_no_problem(
    problem: Callable[..., str], authority: trustme.CA, tmp_path: Path
) -> None:
    """The node's own, valid now and with its key, is handed out; without a key as well."""
    path, key = issue(tmp_path, authority)

    assert problem(path, "n1", key) == problem(path, "n1") == ""


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"common_name": "n2"}, "is the certificate of 'n2'"),
        ({"not_after": NOW - DAY}, f"has expired on {NOW - DAY:%Y-%m-%d}"),
        ({"not_before": NOW + DAY}, "Look at the clocks"),
    ],
)
def test_a_wrong_one_is_told(
    problem: Callable[..., str],
    authority: trustme.CA,
    tmp_path: Path,
    wanted: dict[str, Any],
    told: str,
) -> None:
    """That of another node, one of the past and one of the future are named with the reason."""
    path, key = issue(tmp_path, authority, **wanted)

    assert told in problem(path, "n1", key)


def test_a_wrong_key_is_told(
    problem: Callable[..., str], authority: trustme.CA, tmp_path: Path
) -> None:
    """A key of another certificate, and a text that is none, are named without their content."""
    path, _key = issue(tmp_path, authority)
    other = authority.issue_cert(common_name="n1").private_key_pem.bytes().decode()

    assert problem(path, "n1", other) == f"linkhold_tls_key is not the key of {path}"
    assert problem(path, "n1", "geheim") == (
        "linkhold_tls_key is no PEM key, or one with a password of its own"
    )


class Unequal:
    """A key as cryptography before 41 has it: it equals nothing but itself."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def public_key(self) -> Unequal:
        """Return the public part, a new object each time."""
        return Unequal(self._key.public_key())

    def public_bytes(self, *form: Any) -> bytes:
        """Return the public part in a form."""
        found: bytes = self._key.public_bytes(*form)
        return found


@pytest.mark.parametrize("kind", trustme.KeyType)
def test_keys_are_the_same_by_what_is_in_them(
    problem: Callable[..., str],
    plugin: ModuleType,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: trustme.KeyType,
) -> None:
    """A right key is one, and a wrong one none, where objects of keys cannot be compared."""
    load = plugin.load_pem_private_key
    monkeypatch.setattr(plugin, "load_pem_private_key", lambda *given: Unequal(load(*given)))
    path, key = issue(tmp_path, authority, key_type=kind)
    (tmp_path / "other").mkdir()
    _path, other = issue(tmp_path / "other", authority, key_type=kind)

    assert problem(path, "n1", key) == ""
    assert problem(path, "n1", other) == f"linkhold_tls_key is not the key of {path}"


def strange(pem: str) -> str:
    """Return a PEM text whose key is of a curve that nobody knows."""
    parts = re.match(r"(?s)(-----BEGIN [^\n]+\n)(.*?)(-----END [^\n]+\n)", pem)
    assert parts
    known = base64.b64decode(parts[2])
    assert P256 in known
    changed = base64.encodebytes(known.replace(P256, NO_CURVE)).decode("ascii")
    return f"{parts[1]}{changed}{parts[3]}"


def test_a_kind_of_key_that_nobody_knows_is_told(
    problem: Callable[..., str],
    plugin: ModuleType,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kind of key that the controller's cryptography does not know has words, wherever it is."""
    path, key = issue(tmp_path, authority)
    assert problem(path, "n1", strange(key)) == (
        "linkhold_tls_key is a key of a kind that the controller's cryptography does not know. "
        "Issue one of RSA or of a curve such as P-256, with its certificate"
    )

    Path(path).write_text(strange(Path(path).read_text("ascii")))
    assert problem(path, "n1", key) == (
        f"{path} has a key of a kind that the controller's cryptography does not know. "
        "Issue one of RSA or of a curve such as P-256, with its key"
    )

    def refuse(_text: bytes) -> None:
        raise UnsupportedAlgorithm("no such thing")

    monkeypatch.setattr(plugin.x509, "load_pem_x509_certificate", refuse)
    assert problem(path, "n1").startswith(f"{path} is of a kind that the controller's cryptography")


def test_a_file_that_is_none_is_told(problem: Callable[..., str], tmp_path: Path) -> None:
    """A file without a certificate, and no file, are named."""
    (tmp_path / "x").write_text("x")

    for path in (str(tmp_path / "x"), str(tmp_path / "y")):
        assert problem(path, "n1") == f"{path} holds no PEM certificate"
