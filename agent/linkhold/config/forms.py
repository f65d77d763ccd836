"""The forms that text may have (an address, a name, a path), and the one spelling of each."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from linkhold.wire import is_topic_safe

if TYPE_CHECKING:
    from collections.abc import Callable

_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_DIGITS = re.compile(r"[0-9.]+")  # a mistyped address
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_USB = re.compile(r"[1-9][0-9]*-[1-9][0-9]*(?:\.[1-9][0-9]*)*:[1-9][0-9]*\.[0-9]+")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_COMMANDS = frozenset({"cmnd", "command"})
_WISHES = frozenset({"cmd", "set", "get"})
_MAX_TEXT = 255
_MAX_PORT = 65535
_MAX_HOST = 253
_MAX_URL = 2048
_MAX_PATH = 4095
_MAX_INTERFACE_BYTES = 15
_TAKEN = ("all", "default", "lo", "bonding_masters")
"""Names that the kernel refuses for a new interface: they exist in /proc/sys/net or /sys."""


def form_problem(form: str, text: str) -> str:
    """Return what is wrong with ``text``, which shall have a form of the schema, or empty."""
    check, refusal = _CHECKS.get(form, (_is_short, _TOO_LONG))
    return "" if check(text) else refusal


def normal(form: str, text: str) -> str:
    """Return the one spelling of a valid text: addresses, MACs and bus paths as Linux has them."""
    if form == "ip":
        return str(ipaddress.ip_address(text))
    if form == "member" and ":" in text:
        return text.lower()
    return text


def is_interface(name: str) -> bool:
    """Tell whether the kernel takes ``name`` for an interface (its dev_valid_name())."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _MAX_INTERFACE_BYTES
        and name not in (".", "..")
        and name.isprintable()
        and not re.search(r"[/:\s]", name)
    )


def _is_new_interface(name: str) -> bool:
    return is_interface(name) and "%" not in name and name not in _TAKEN


def _is_member(text: str) -> bool:
    """Tell whether ``text`` can mean a NIC; only an interface name has no colon."""
    low = text.lower()
    if _MAC.fullmatch(low):
        group_address = int(low[:2], 16) & 1
        return not group_address and low != "00:00:00:00:00:00"
    return is_interface(text) or bool(_PCI.fullmatch(low) or _USB.fullmatch(low))


def _is_address(text: str) -> bool:
    """Tell whether ``text`` is the address of one other machine."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    nobody = address.is_unspecified or address.is_multicast or address.is_loopback
    return "%" not in text and not nobody and text != "255.255.255.255"


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        named = _HOST_NAME.fullmatch(text) and ".." not in text and not _DIGITS.fullmatch(text)
        return len(text) <= _MAX_HOST and bool(named)
    return True


def _is_endpoint(text: str) -> bool:
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (":" in host) is not bracketed:
        return False
    return _is_host(host[1:-1] if bracketed else host) and _is_port(port)


def _is_url(text: str) -> bool:
    """Tell whether ``text`` can be asked for; a password in it would end up in messages."""
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and " " not in text and len(text) <= _MAX_URL
    rest = bool(split.username or split.password or split.fragment or port == 0)
    named = bool(split.hostname) and _is_host(split.hostname or "")
    return split.scheme in ("http", "https") and plain and named and not rest


def _is_path(text: str) -> bool:
    return text.startswith("/") and not text.endswith("/") and len(text.encode()) <= _MAX_PATH


def _is_prom(text: str) -> bool:
    return _is_path(text) and text.endswith(".prom")


def _is_topic(text: str) -> bool:
    """Tell whether ``text`` is a topic filter (MQTT v5, 4.7) of something that may be read.

    What is said on a topic of commands is somebody's wish; ``$`` topics are the broker's own.
    """
    levels = text.split("/")
    wild = all(level in {"+", "#"} or not {"+", "#"} & set(level) for level in levels)
    shared = text.startswith("$")
    commands = _COMMANDS & {level.lower() for level in levels} or levels[-1].lower() in _WISHES
    plain = 0 < len(text.encode()) <= _MAX_TEXT and "#" not in levels[:-1]
    return plain and wild and not shared and not commands


def _is_word(text: str) -> bool:
    return len(text) <= _MAX_TEXT and not re.search(r'[\s"\\]', text)


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and int(text) <= _MAX_PORT


def _is_short(text: str) -> bool:
    return len(text) <= _MAX_TEXT


_TOO_LONG = f"is longer than {_MAX_TEXT} characters"
_CHECKS: dict[str, tuple[Callable[[str], bool], str]] = {
    "ip": (_is_address, "is no address of another machine"),
    "host": (_is_host, "is no host name"),
    "endpoint": (_is_endpoint, "is no host:port"),
    "url": (_is_url, "is no URL of http or https that can be asked for"),
    "interface": (is_interface, "is no interface name"),
    "new_interface": (_is_new_interface, "cannot be the name of a new interface"),
    "member": (_is_member, "is no interface name, MAC of a NIC or bus path"),
    "port": (_is_port, "is no port"),
    "path": (_is_path, "is no absolute path of a file"),
    "prom": (_is_prom, "is no absolute path that ends in .prom"),
    "topic": (_is_topic, "is no topic to listen to"),
    "word": (_is_word, "holds a space, a quote or a backslash"),
    "safe": (is_topic_safe, "cannot be one level of an MQTT topic"),
}
