"""The error classes of other packages, by name: recognised without importing any of them.

The key is the top-level module in which a class is defined. Lookups follow the class's own
``__mro__``, so a subclass made by a user is known too, and a more special entry wins.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Sort(str, Enum):
    """What sort of failure it was; the value is the name that people read."""

    CONNECTION = "connection"
    """Reset, refused, aborted, no route, an answer that ended half-way."""
    TIMEOUT = "timeout"
    DNS = "dns"
    THROTTLED = "throttled"
    """Asked to come later: HTTP 429, SlowDown and the like."""
    SERVER = "server"
    """The other side failed by itself: HTTP 5xx."""
    STORE = "store"
    """A store of torch.distributed."""


class No(Enum):
    """Not retryable."""

    OWN = "own"
    """By itself; but it may have been raised ``from`` an error that is."""
    FINAL = "final"
    """Whatever it was raised from."""


_SURE: Mapping[str, Mapping[str, Sort | No]] = {
    "aiohttp": {
        "ClientConnectorCertificateError": No.FINAL,
        "ServerFingerprintMismatch": No.FINAL,
        "ClientConnectorDNSError": Sort.DNS,
        "ServerTimeoutError": Sort.TIMEOUT,
    },
    "asyncio": {"TimeoutError": Sort.TIMEOUT, "IncompleteReadError": Sort.CONNECTION},
    "botocore": {
        "IncompleteReadError": Sort.CONNECTION,
        "ReadTimeoutError": Sort.TIMEOUT,
        "ConnectTimeoutError": Sort.TIMEOUT,
    },
    "concurrent": {"TimeoutError": Sort.TIMEOUT},
    "fsspec": {"FSTimeoutError": Sort.TIMEOUT},
    "http": {"IncompleteRead": Sort.CONNECTION, "BadStatusLine": Sort.CONNECTION},
    "requests": {"ReadTimeout": Sort.TIMEOUT},
    "ssl": {
        "SSLCertVerificationError": No.FINAL,
        "SSLEOFError": Sort.CONNECTION,
        "SSLSyscallError": Sort.CONNECTION,
        "SSLZeroReturnError": Sort.CONNECTION,
    },
    "torch": {
        "QueueEmptyError": No.OWN,
        "DistNetworkError": Sort.STORE,
        "DistStoreError": Sort.STORE,
        "RendezvousConnectionError": Sort.STORE,
    },
    "urllib3": {
        "NameResolutionError": Sort.DNS,
        "ReadTimeoutError": Sort.TIMEOUT,
        "IncompleteRead": Sort.CONNECTION,
    },
}
"""Classes that say all by themselves. A timeout of torch's ``DistBackendError`` (a collective) is
not among them: no rank may try a collective again alone."""

_HTTPX: Mapping[str, Sort] = {
    "ConnectTimeout": Sort.TIMEOUT,
    "ReadTimeout": Sort.TIMEOUT,
    "WriteTimeout": Sort.TIMEOUT,
    "NetworkError": Sort.CONNECTION,
    "RemoteProtocolError": Sort.CONNECTION,
    "ProxyError": Sort.CONNECTION,
}

_WRAPPERS: Mapping[str, Mapping[str, Sort]] = {
    "aiohttp": {
        "ClientPayloadError": Sort.CONNECTION,
        "ClientConnectionError": Sort.CONNECTION,
    },
    "azure": {
        "ServiceRequestError": Sort.CONNECTION,
        "ServiceResponseError": Sort.CONNECTION,
    },
    "botocore": {
        "HTTPClientError": Sort.CONNECTION,
        "ConnectionError": Sort.CONNECTION,
    },
    "httpcore": _HTTPX,
    "httpx": _HTTPX,
    "requests": {
        "ConnectTimeout": Sort.TIMEOUT,
        "Timeout": Sort.TIMEOUT,
        "ConnectionError": Sort.CONNECTION,
        "ChunkedEncodingError": Sort.CONNECTION,
        "RetryError": Sort.SERVER,
    },
    "urllib3": {
        "NewConnectionError": Sort.CONNECTION,  # a ConnectTimeoutError by inheritance only
        "ConnectTimeoutError": Sort.TIMEOUT,
        "ProtocolError": Sort.CONNECTION,
        "ProxyError": Sort.CONNECTION,
        "SSLError": Sort.CONNECTION,
    },
}
"""Classes around another error, which says more: a name that is unknown, a bad certificate. The
sort counts when there is nothing inside."""


_ALSO = {"httpx2": "httpx", "httpcore2": "httpcore"}
"""Packages that live on under another name."""


def sure(error: BaseException) -> Sort | No | None:
    """Return what the class of ``error`` says by itself, None where it says nothing."""
    for known in type(error).__mro__:
        found = _SURE.get(_package(known), {}).get(known.__name__)
        if found is not None:
            return found
    return None


def wrapper(error: BaseException) -> Sort | None:
    """Return what ``error`` is when nothing inside says more, None if it is no known wrapper."""
    for known in type(error).__mro__:
        found = _WRAPPERS.get(_package(known), {}).get(known.__name__)
        if found is not None:
            return found
    return None


def is_ssl(error: BaseException) -> bool:
    """Tell whether it is an error of the standard library's ssl, which is slow to import."""
    return any(
        (known.__module__, known.__name__) == ("ssl", "SSLError") for known in type(error).__mro__
    )


def package(error: BaseException) -> str:
    """Return the top-level module of the class of ``error``."""
    return _package(type(error))


def _package(known: type) -> str:
    name = str(known.__module__).partition(".")[0]
    return _ALSO.get(name, name)
