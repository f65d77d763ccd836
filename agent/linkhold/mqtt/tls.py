"""TLS of an MQTT connection, and why it failed: paho says neither."""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from linkhold.model import BrokerError

if TYPE_CHECKING:
    from collections import deque
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tls:
    """How to check the broker and how to identify ourselves; paths of PEM files."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


class _TlsSocket(ssl.SSLSocket):
    """Remembers why TLS failed, which paho does not tell, and closes after a failed handshake."""

    failures: deque[str]

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 -- as inherited
        try:
            super().do_handshake(block)
        except OSError:
            self.close()
            raise

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.failures.append(f"TLS: {_in_words(error.reason or 'error')}")
            raise

    def send(self, data: Any, flags: int = 0) -> int:
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            with contextlib.suppress(OSError):
                self.recv(1)  # the alert of a broker that refuses our certificate
            raise


def tls_context(tls: Tls, failures: deque[str]) -> ssl.SSLContext:
    """Return a context for :class:`Tls`; ``failures`` gets what its sockets fail by.

    Raises :class:`BrokerError` when a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=str(tls.ca) if tls.ca else None)
        context.sslsocket_class = type("_TlsSocket", (_TlsSocket,), {"failures": failures})
        if tls.cert is not None:
            key = str(tls.key) if tls.key else None
            context.load_cert_chain(str(tls.cert), key, partial(_no_password, key or str(tls.cert)))
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(path) for path in (tls.ca, tls.cert, tls.key) if path)
        raise BrokerError(f"TLS files {files}: {reason_of(error)}") from error
    return context


def _in_words(reason: str) -> str:
    """Return OpenSSL's reason as a person would say it; an alert is what the other side said."""
    _version, alert, said = reason.lower().replace("_", " ").partition(" alert ")
    return f"the broker says: {said}" if alert else reason.lower().replace("_", " ")


def _no_password(key: str) -> str:
    """Refuse an encrypted key; without this OpenSSL asks for its password on the terminal."""
    raise BrokerError(f"TLS key {key} is encrypted; allowed: a key without a password")


def reason_of(error: Exception) -> str:
    """Return why a connection failed, as a person would say it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate refused: {error.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
