"""The document of an entry: what was written comes back, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.spool import manifest as module
from linkhold.client.spool.manifest import Damaged, File, Manifest, decode, divide, encode, unite

NAMES = st.text(min_size=1, max_size=12).filter(
    lambda name: "/" not in name and "\0" not in name and name not in (".", "..")
)
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
OPTIONS = st.dictionaries(
    st.text(max_size=12), VALUES | st.dictionaries(st.text(max_size=8), VALUES)
)
HASHES = st.binary(min_size=32, max_size=32).map(bytes.hex)
FILES = st.lists(st.builds(File, NAMES, st.integers(0, 1 << 50), HASHES), max_size=4).map(tuple)
MANIFESTS = st.builds(
    Manifest,
    name=st.text(max_size=20),
    base=NAMES,
    folder=st.just(True),
    files=FILES,
    at_s=st.floats(0, 1e10),
    url=st.none() | st.text(max_size=20),
    options=OPTIONS,
    withheld=st.booleans(),
)


@given(MANIFESTS)
def test_what_was_written_comes_back(manifest: Manifest) -> None:
    """Every manifest survives the disk, whatever its names are."""
    assert decode(encode(manifest)) == manifest


@given(MANIFESTS, st.data())
def test_a_changed_bit_is_found(manifest: Manifest, data: st.DataObject) -> None:
    """A document with any one bit changed is refused, never believed."""
    content = bytearray(encode(manifest))
    bit = data.draw(st.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8

    with pytest.raises(Damaged):
        decode(bytes(content))


@given(MANIFESTS, st.data())
def test_a_part_of_it_is_found(manifest: Manifest, data: st.DataObject) -> None:
    """A document that was cut short is refused."""
    content = encode(manifest)
    with pytest.raises(Damaged):
        decode(content[: data.draw(st.integers(0, len(content) - 1))])


@given(st.binary(max_size=200))
def test_garbage_raises_one_error_only(content: bytes) -> None:
    """Any bytes at all end in Damaged."""
    with pytest.raises(Damaged):
        decode(content)


def forged(**fields: Any) -> bytes:
    """Return a document with a right checksum and fields that linkhold would not write."""
    whole = Manifest("n", "b", folder=True, files=(), at_s=1.0)
    content = json.loads(encode(whole))["manifest"] | fields
    return module._canonical({"manifest": content, "sha256": module._digest(content)})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base": "../x"}, "no path inside"),
        ({"base": "a/b"}, "no plain name"),
        ({"base": ""}, "no path inside"),
        ({"files": [{"path": "../x", "size_bytes": 1, "sha256": "0" * 64}]}, "no path inside"),
        ({"files": [{"path": "/etc/x", "size_bytes": 1, "sha256": "0" * 64}]}, "no path inside"),
        ({"files": [{"path": "x", "size_bytes": -1, "sha256": "0" * 64}]}, "out of range"),
        ({"files": [{"path": "x", "size_bytes": 1, "sha256": "0"}]}, "out of range"),
        ({"folder": False}, "does not name one file"),
        ({"schema": 2}, "another version"),
        ({"extra": 1}, "no valid document"),
        ({"files": 5}, "no valid document"),
    ],
)
def test_a_forged_one_leads_nowhere(fields: dict[str, Any], words: str) -> None:
    """A manifest cannot name files outside its entry, even with a right checksum."""
    with pytest.raises(Damaged, match=words):
        decode(forged(**fields))


@pytest.mark.parametrize(
    ("given", "kept", "withheld"),
    [
        ({"anon": True}, {"anon": True}, False),
        ({"key": "k", "secret": "s"}, {}, True),
        (
            {"client_kwargs": {"endpoint_url": "http://x", "aws_secret_access_key": "s"}},
            {"client_kwargs": {"endpoint_url": "http://x"}},
            True,
        ),
        ({"session": object()}, {}, True),
        ({"token": None, "sas_token": "x", "project": "p"}, {"project": "p"}, True),
        ({"headers": {"Authorization": "Bearer x"}, "port": 1}, {"headers": {}, "port": 1}, True),
    ],
)
def test_no_secret_goes_to_the_disk(
    given: dict[str, Any],
    kept: dict[str, Any],
    withheld: bool,  # noqa: FBT001 - a table's column
) -> None:
    """Secrets and what is no plain value stay out of the manifest, and that is remembered."""
    assert divide(given) == (kept, withheld)
    assert unite(kept, given) == given
