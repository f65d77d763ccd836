"""Any storage through fsspec: a file or folder goes there whole, is looked at there, or fails.

One layer retries, and that is the upload's worker: what the storage's own library would repeat is
turned off, where it can be. An upload that makes no progress is given up, because a lost network
can keep a write waiting for hours.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from linkhold.client import fork, local_files
from linkhold.client.retry.families import family
from linkhold.client.storage_fs import COMPLETE, Remote, draft
from linkhold.client.storage_proof import Unverified, prove
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.local_files import Look

PART_BYTES = 16 << 20
MOST_PARTS = 9000
"""S3 takes 10,000 parts."""
PARTS_AT_ONCE = 4
"""Each is held in memory."""
CONNECT_S, READ_S = 10, 60
WHOLE_AT_ONCE = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "obs", "cos", "oci", "hf"}
)
"""Stores where an object appears with its last byte. Elsewhere it gets its name at the end."""
S3 = frozenset({"s3", "s3a"})
COMMIT_FILES = (".metadata",)
"""What readers take for the sign that a folder is whole (torch DCP): uploaded after the rest."""


def retryable(error: BaseException) -> bool:
    """Tell whether an upload that failed with ``error`` may succeed later."""
    return isinstance(error, Unverified) or family(error) is not None


def store_of(url: str) -> str:
    """Return the part of an address that names the store, without anybody's password."""
    protocol, rest = _split(url)
    host = urlsplit(f"//{rest}").netloc.rpartition("@")[2]
    return f"{protocol}://{host}"


def shown(url: str) -> str:
    """Return an address as it may stand in a log."""
    protocol, rest = _split(url)
    host, slash, path = rest.partition("/")
    return f"{protocol}://{host.rpartition('@')[2]}{slash}{path}" if "://" in url else url


def full_address(url: str | os.PathLike[str], source: str | os.PathLike[str]) -> str:
    """Return where ``source`` goes: an address that ends with / gets its name, as with cp.

    Raises :class:`TypeError` or :class:`ValueError` for what is no address.
    """
    if not isinstance(url, (str, os.PathLike)):
        raise TypeError(f"upload_to: {url!r} is no address")
    text = os.fspath(url)
    if not isinstance(text, str) or not text.strip("/"):
        raise ValueError(f'upload_to: {text!r} is no address; write "s3://bucket/name" or a path')
    if "://" not in text:
        text = os.path.abspath(os.path.expanduser(text)) + ("/" if text.endswith("/") else "")  # noqa: PTH100, PTH111 - keeps the slash
    protocol, rest = _split(text)
    if not rest.strip("/"):
        raise ValueError(f"upload_to: {text!r} names no file; write {protocol}://bucket/name")
    return text + Path(source).absolute().name if text.endswith("/") else text


def missing(url: str) -> str:
    """Say which package is missing for ``url``, and how to get it; empty when none is."""
    if find_spec("fsspec") is None:
        return "upload_to needs the package fsspec: pip install 'linkhold[storage]'"
    fork.import_whole("fsspec")
    from fsspec.registry import known_implementations, registry  # noqa: PLC0415 - see above

    protocol = _split(url)[0]
    if protocol in registry:
        return ""
    known = known_implementations.get(protocol)
    if known is None:
        return f"upload_to: no storage of fsspec is called {protocol}:// (in {shown(url)})"
    package = known["class"].partition(".")[0]
    if find_spec(package) is not None:
        return ""
    return f"upload_to: {protocol}:// needs the package {package}: pip install {package}"


class Push:
    """Brings one source to one address; called again after a failure it begins anew."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self.options = options
        self.give_way: Callable[[], bool] = lambda: False
        self._protocol = _split(url)[0]
        self._opened: tuple[Remote, str] | None = None

    def __call__(self, source: str | os.PathLike[str], guard: Look | None = None) -> None:
        """Upload ``source``, which must look like ``guard`` if that is given.

        Raises what the storage raises, :class:`Unverified` when what arrived is not what was
        sent, :class:`Changed` when the source is no longer what it was, :class:`GiveWay`.
        """
        path = Path(source)
        found = _unchanged(path, guard)
        remote, target = self._opened or self._open()
        if found.folder:
            self._push_folder(remote, path, target, found)
        else:
            self._push_file(remote, path, target)
        _unchanged(path, guard)
        self._opened = None  # whoever keeps the handle keeps no connections

    def _open(self) -> tuple[Remote, str]:
        why = missing(self.url)
        if why:
            raise Unavailable(why)
        from fsspec.core import url_to_fs  # noqa: PLC0415 - checked by missing()

        _import_storage(self._protocol)
        options = calm(self._protocol, self.options)
        fs, target = url_to_fs(self.url, skip_instance_cache=True, **options)
        if isinstance(getattr(fs, "retries", None), int):
            fs.retries = 1  # attempts of s3fs, on top of botocore's
        self._opened = Remote(fs, self._gives_way), target
        return self._opened

    def _gives_way(self) -> bool:
        return self.give_way()

    def _push_file(self, remote: Remote, path: Path, target: str) -> None:
        if self._protocol in WHOLE_AT_ONCE:
            self._put(remote, path, target)
            return
        remote.check_file(target)
        self._put(remote, path, draft(target))
        remote.rename(target)

    def _push_folder(self, remote: Remote, path: Path, target: str, found: Look) -> None:
        if self._protocol in WHOLE_AT_ONCE:
            remote.unmark(target, (*COMMIT_FILES, COMPLETE))  # from now on it is not whole
            self._put_all(remote, path, target, found)
            return
        remote.check_folder(target)
        remote.remove(draft(target))
        self._put_all(remote, path, draft(target), found)
        remote.rename(target)

    def _put_all(self, remote: Remote, path: Path, target: str, found: Look) -> None:
        for name in sorted((file.path for file in found.files), key=_commits_last):
            self._put(remote, path / name, f"{target}/{name}")
        remote.mark(target, {file.path: file.size_bytes for file in found.files})

    def _put(self, remote: Remote, path: Path, target: str) -> None:
        """Bring one file to ``target`` and look at it there."""
        part_bytes = max(PART_BYTES, -(-path.stat().st_size // MOST_PARTS))
        if self._protocol in S3:
            remote.put(str(path), target, chunksize=part_bytes, max_concurrency=PARTS_AT_ONCE)
        else:
            remote.run("makedirs", str(PurePosixPath(target).parent), exist_ok=True)
            remote.put(str(path), target)
        prove(remote, path, target, part_bytes)


def calm(protocol: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the retries of botocore turned off; what the user set stays."""
    if protocol not in S3:
        return options
    config = {
        "retries": {"total_max_attempts": 1},
        "connect_timeout": CONNECT_S,
        "read_timeout": READ_S,
        **options.get("config_kwargs", {}),
    }
    return {**options, "config_kwargs": config}


def _split(url: str) -> tuple[str, str]:
    protocol, mark, rest = url.partition("://")
    return (protocol.lower(), rest) if mark else ("file", url)


def _import_storage(protocol: str) -> None:
    """Import the storage's package so that no child is forked while it is half loaded."""
    from fsspec.registry import known_implementations, registry  # noqa: PLC0415 - see missing()

    if protocol not in registry and protocol in known_implementations:
        module = known_implementations[protocol]["class"].rpartition(".")[0]
        fork.import_whole(module.replace(":", "."))


def _unchanged(path: Path, guard: Look | None) -> Look:
    found = local_files.look(path)
    if guard is not None and found != guard:
        raise local_files.Changed(
            f"{path.name} was overwritten before it was uploaded: give each checkpoint a name of"
            " its own, or the Hold a spool"
        )
    return found


def _commits_last(name: str) -> tuple[bool, str]:
    return name in COMMIT_FILES, name
