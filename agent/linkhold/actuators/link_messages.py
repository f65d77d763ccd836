"""Messages about links, encoded by pyroute2, with the options of bonds that it lacks.

pyroute2's own table of bond options ends at number 27 and drops a name that it does not know
without a word; here an unknown name is a KeyError. Only commands import this module: pyroute2
costs 15 MB and 0.3 s, which the agent need not pay.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg  # noqa: TID251
from pyroute2.netlink.rtnl.ifinfmsg.plugins.bond import (  # noqa: TID251
    bond as pyroute2_bond,
)

from linkhold.rtnl.attributes import pack
from linkhold.rtnl.bond import OPTIONS
from linkhold.rtnl.retarget import Template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.bonding.steps import SetBond, SetLink

IFF_UP = 0x1
BY_INDEX = frozenset({"primary", "active_slave"})
_TYPES = {"u8": "uint8", "u32": "uint32", "ip4s": "*ipaddr", "ip6s": "hex"}

_STAND_INS = range(0x7E5A0001, 0x7E5A0100)
"""Numbers that stand for interface indexes until the message is sent."""


class _BondData(pyroute2_bond):  # type: ignore[misc]
    """IFLA_INFO_DATA of a bond with every option of our table, by number."""

    nla_map = tuple(
        (number, f"IFLA_BOND_{name.upper()}", _TYPES[kind])
        for name, (number, kind) in OPTIONS.items()
    )


class _LinkMessage(ifinfmsg):  # type: ignore[misc]
    """RTM_NEWLINK that knows :class:`_BondData`."""

    class ifinfo(ifinfmsg.ifinfo):  # type: ignore[misc] # noqa: N801 - pyroute2 looks it up so
        """IFLA_LINKINFO."""

        data_map = {**ifinfmsg.ifinfo.data_map, "bond": _BondData}  # noqa: RUF012


class _Encoder:
    """Encodes one message and finds the places of its interface indexes."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._numbers = iter(_STAND_INS)

    def index(self, name: str) -> int:
        """Return what stands for the index of ``name`` (0 for no interface)."""
        if not name:
            return 0
        number = next(self._numbers)
        self._names[number] = name
        return number

    def encode(self, message: _LinkMessage) -> Template:
        message.encode()
        body = bytearray(message.data)[16:]  # without the netlink header
        holes = []
        for number, name in self._names.items():
            offset = body.index(struct.pack("=I", number))
            body[offset : offset + 4] = bytes(4)
            holes.append((offset, name))
        return Template(bytes(body), tuple(holes))


def set_link(step: SetLink) -> Template:
    """Return RTM_NEWLINK for an existing interface, addressed by index."""
    encoder, message = _Encoder(), _LinkMessage()
    message["index"] = encoder.index(step.name)
    if step.up is not None:
        message["flags"], message["change"] = IFF_UP if step.up else 0, IFF_UP
    attributes: list[tuple[str, object]] = []
    if step.mtu:
        attributes.append(("IFLA_MTU", step.mtu))
    if step.mac:
        attributes.append(("IFLA_ADDRESS", step.mac))
    if step.master is not None:
        attributes.append(("IFLA_MASTER", encoder.index(step.master)))
    if step.token:
        token = {"attrs": [("IFLA_INET6_TOKEN", step.token)]}
        attributes.append(("IFLA_AF_SPEC", {"attrs": [("AF_INET6", token)]}))
    message["attrs"] = attributes
    return encoder.encode(message)


def set_bond(step: SetBond) -> Template:
    """Return RTM_NEWLINK that creates a bond (by name) or sets options of one (by index).

    Raises KeyError for an option that the table does not know.
    """
    encoder, message = _Encoder(), _LinkMessage()
    attributes: list[tuple[str, object]] = []
    if step.create:
        attributes.append(("IFLA_IFNAME", step.name))
    else:
        message["index"] = encoder.index(step.name)
    if step.mac:
        attributes.append(("IFLA_ADDRESS", step.mac))
    if step.mtu:
        attributes.append(("IFLA_MTU", step.mtu))
    data = {"attrs": _options(step.options, encoder)}
    info = [("IFLA_INFO_KIND", "bond"), ("IFLA_INFO_DATA", data)]
    message["attrs"] = [*attributes, ("IFLA_LINKINFO", {"attrs": info})]
    return encoder.encode(message)


def _options(options: Mapping[str, object], encoder: _Encoder) -> list[tuple[str, object]]:
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise KeyError(f"no bond option {', '.join(sorted(unknown))}")
    return [
        (
            f"IFLA_BOND_{name.upper()}",
            encoder.index(str(options[name])) if name in BY_INDEX else _value(name, options[name]),
        )
        for name in OPTIONS
        if name in options
    ]


def _value(name: str, value: object) -> object:
    if OPTIONS[name][1] != "ip6s":
        return list(value) if isinstance(value, tuple) else value
    assert isinstance(value, (tuple, list))  # noqa: S101 - the table says so
    return b"".join(
        pack(at, socket.inet_pton(socket.AF_INET6, str(one))) for at, one in enumerate(value)
    )
