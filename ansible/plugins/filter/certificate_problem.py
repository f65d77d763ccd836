"""Tells on the controller what is wrong with a certificate before a node gets it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: certificate_problem
short_description: Tells what is wrong with the certificate of a node
description:
  - Looks at the first certificate of a PEM file of the controller, with C(cryptography), which
    ansible-core brings.
version_added: "0.1.0"
author: linkhold contributors
positional: _input, name, key
options:
  _input:
    description: The file with the certificate.
    type: path
    required: true
  name:
    description: The name of the node, which must be the certificate's common name.
    type: str
    required: true
  key:
    description: The text of the key in PEM; empty when it is not looked at.
    type: str
    default: ""
"""
EXAMPLES = r"""
- name: Look at the node's certificate
  ansible.builtin.assert:
    that: (linkhold_tls_cert | linkhold.linkhold.certificate_problem(inventory_hostname)) == ''
"""
RETURN = r"""
_value:
  description: What is wrong and what to do next, empty when nothing is.
  type: str
"""

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

UNKNOWN = (
    "of a kind that the controller's cryptography does not know. Issue one of RSA or of a curve "
    "such as P-256, with its"
)


def problem(path: str, name: str, key: str = "") -> str:
    """Return what is wrong with a certificate, empty when nothing is."""
    try:
        found = x509.load_pem_x509_certificate(Path(path).read_bytes())
    except UnsupportedAlgorithm:
        return f"{path} is {UNKNOWN} key"
    except (OSError, ValueError):
        return f"{path} holds no PEM certificate"
    names = found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    whose = str(names[0].value) if names else ""
    if whose != name:
        return (
            f"{path} is the certificate of '{whose}'. Give each node its own; where a node is "
            "called otherwise than in the inventory, say so with linkhold_node"
        )
    return _age(path, found) or _key(path, found, key)


def _age(path: str, found: x509.Certificate) -> str:
    now = dt.datetime.now(dt.timezone.utc)
    begin, end = _utc(found, "not_valid_before"), _utc(found, "not_valid_after")
    if end < now:
        return f"{path} has expired on {end:%Y-%m-%d}. Issue a new one"
    if begin > now:
        return f"{path} is valid from {begin:%Y-%m-%d %H:%M} UTC on. Look at the clocks"
    return ""


def _utc(found: x509.Certificate, name: str) -> dt.datetime:
    """Return a date of a certificate; cryptography has those with a zone from 42.0 on."""
    moment: dt.datetime = getattr(found, f"{name}_utc", None) or getattr(found, name)
    return moment.replace(tzinfo=dt.timezone.utc)


def _key(path: str, found: x509.Certificate, text: str) -> str:
    if not text:
        return ""
    try:
        key = load_pem_private_key(text.encode(), None)
    except UnsupportedAlgorithm:
        return f"linkhold_tls_key is a key {UNKNOWN} certificate"
    except (TypeError, ValueError):
        return "linkhold_tls_key is no PEM key, or one with a password of its own"
    try:
        wanted = found.public_key()
    except (UnsupportedAlgorithm, ValueError):  # the latter of 41 and older
        return f"{path} has a key {UNKNOWN} key"
    fits = _content(key.public_key()) == _content(wanted)
    return "" if fits else f"linkhold_tls_key is not the key of {path}"


def _content(key: PublicKeyTypes) -> bytes:
    """Return what a key is; objects of keys are compared by it from cryptography 41 on only."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return them by name."""
        return {"certificate_problem": problem}
