"""What the controller says about the certificate of a node before it is handed out."""

from __future__ import annotations

import datetime as dt
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme

if TYPE_CHECKING:
    from collections.abc import Callable

PLUGIN = Path(__file__).parents[2] / "ansible/plugins/filter/certificate_problem.py"
NOW = dt.datetime.now(dt.timezone.utc)
DAY = dt.timedelta(days=1)


@pytest.fixture(scope="module")
def problem() -> Callable[[str, str, str], str]:
    """The filter, from its file."""
    spec = importlib.util.spec_from_file_location("certificate_problem", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    found: Callable[[str, str, str], str] = made.FilterModule().filters()["certificate_problem"]
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


def test_a_file_that_is_none_is_told(problem: Callable[..., str], tmp_path: Path) -> None:
    """A file without a certificate, and no file, are named."""
    (tmp_path / "x").write_text("x")

    for path in (str(tmp_path / "x"), str(tmp_path / "y")):
        assert problem(path, "n1") == f"{path} holds no PEM certificate"
