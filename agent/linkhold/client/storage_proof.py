"""Whether what arrived at a storage is what was sent: its size, and its checksum if one is told."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import re
from typing import TYPE_CHECKING, Any

from linkhold.client import local_files
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.client.storage_fs import Remote

READ_BACK_BYTES = 16 << 20
_ETAG = re.compile(r'"?([0-9a-f]{32})(?:-(\d+))?"?')
_opaque: set[str] = set()
"""Buckets whose ETags turned out to be no checksums (encrypted by a key of KMS or the caller)."""


class Unverified(LinkholdError):
    """The storage said that all went well, and has something else."""


def prove(remote: Remote, path: Path, target: str, part_bytes: int) -> None:
    """Look at ``target`` and compare it with ``path``; what is wrong is removed.

    Raises :class:`Unverified`, or what the storage raises.
    """
    remote.fs.invalidate_cache()
    try:
        why = _difference(remote, path, target, part_bytes)
    except FileNotFoundError as error:
        raise Unverified(f"the storage took {target} and does not have it") from error
    if why:
        with contextlib.suppress(Exception):  # the difference is what the person must read
            remote.run("rm_file", target)
        raise Unverified(f"{target} is not what was sent: {why}")


def _difference(remote: Remote, path: Path, target: str, part_bytes: int) -> str:
    info, size_bytes = remote.run("info", target), path.stat().st_size
    if info.get("size") != size_bytes:
        return f"{info.get('size')} bytes of {size_bytes}"
    told = told_md5(info)
    bucket = target.partition("/")[0]
    if told is None or bucket in _opaque or told == md5(path, told.partition("-")[2], part_bytes):
        return ""
    if _read_back(remote, target, size_bytes) != local_files.sha256(path):
        return "its content differs"
    _opaque.add(bucket)
    return ""


def told_md5(info: dict[str, Any]) -> str | None:
    """Return what a storage says of an object's content, in the form of an S3 ETag.

    That is the MD5 in hex, or ``<MD5 of the MD5s of its parts>-<number of parts>``.
    """
    etag = _ETAG.fullmatch(str(info.get("ETag", "")))
    if etag is not None:
        return etag[1] if etag[2] is None else f"{etag[1]}-{etag[2]}"
    try:
        plain = base64.b64decode(str(info.get("md5Hash", "")), validate=True)  # Google's
    except (binascii.Error, ValueError):
        return None
    return plain.hex() if len(plain) == hashlib.md5(usedforsecurity=False).digest_size else None


def md5(path: Path, parts: str, part_bytes: int) -> str:
    """Return what S3's ETag is for a file: plain, or, with ``parts``, of its parts."""
    if not parts:
        whole = hashlib.md5(usedforsecurity=False)
        for chunk in local_files.chunks(path):
            whole.update(chunk)
        return whole.hexdigest()
    digests = [
        hashlib.md5(chunk, usedforsecurity=False).digest()
        for chunk in local_files.chunks(path, part_bytes)
    ]
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


def _read_back(remote: Remote, target: str, size_bytes: int) -> str:
    digest = hashlib.sha256()
    for start in range(0, size_bytes, READ_BACK_BYTES):
        digest.update(remote.run("cat_file", target, start=start, end=start + READ_BACK_BYTES))
    return digest.hexdigest()
