"""Sysctls below net/ipv4 of the network namespace that the calling thread is in.

/proc/sys/net shows the namespace of the thread that opens a file in it (proc_sysctl.c,
net_ctl_root), whichever namespace /proc was mounted in.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER = "/proc/sys/net/ipv4"
_NAME = re.compile(r"[a-z0-9_]+")


def read(names: Iterable[str], errors: dict[str, str], folder: str = FOLDER) -> dict[str, int]:
    """Return the numbers in these files; one that the kernel lacks is left out.

    What cannot be read for another reason is put into ``errors``, by name.
    """
    found = {}
    for name in names:
        try:
            found[name] = _number(_path(folder, name))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            errors[name] = _said(error)
    return found


def write(
    values: Mapping[str, int], errors: dict[str, str], folder: str = FOLDER
) -> tuple[dict[str, int], dict[str, int]]:
    """Write these files and return their numbers before and as read back afterwards.

    What is equal already is not written. ``errors`` names what the kernel lacks, what it
    refused, and what is not what was written.
    """
    before = read(values, errors, folder)
    for name, value in values.items():
        if name not in before:
            errors.setdefault(name, "this kernel has no such value")
        elif before[name] != value:
            _put(folder, name, value, errors)
    after = read(values, errors, folder)
    for name in before:
        if name not in errors and after.get(name) != values[name]:
            errors[name] = f"{values[name]} was written, {after.get(name)} is read back"
    return before, after


def _put(folder: str, name: str, value: int, errors: dict[str, str]) -> None:
    try:
        descriptor = os.open(_path(folder, name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"%d\n" % value)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        errors[name] = _said(error)


def _path(folder: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a sysctl below net/ipv4")
    return f"{folder}/{name}"


def _number(path: str) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(descriptor, 4096))
    finally:
        os.close(descriptor)


def _said(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.EROFS:
        return "/proc/sys is read-only here: a container, or a service with ProtectKernelTunables"
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"{error.strerror}: this needs root, in a service CAP_NET_ADMIN"
    if error.errno == errno.EINVAL:
        return "the kernel refuses this value"
    return error.strerror or str(error)
