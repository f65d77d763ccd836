"""Messages about links, read back by pyroute2's own decoder; plans as JSON; what guards import."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from linkhold.actuators import link_messages
from linkhold.actuators.compile import step_document
from linkhold.actuators.remedies import remedy_for
from linkhold.decide.bonding import steps
from linkhold.rtnl.bond import OPTIONS

OURS_ALONE = {"peer_notif_delay", "missed_max", "ns_ip6_target"}
"""pyroute2's table ends before these."""


def decoded(body: bytes) -> dict[str, Any]:
    """Return the attributes of a body as pyroute2 reads them, without our table."""
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

    message = ifinfmsg(b"\0" * 16 + body)
    message["header"]["length"] = len(body) + 16
    raw = (len(body) + 16).to_bytes(4, sys.byteorder) + b"\x10\0" + bytes(10) + body
    message = ifinfmsg(raw)
    message.decode()
    return {"index": message["index"], "flags": message["flags"], **dict(message["attrs"])}


def test_a_bond_is_asked_for_with_every_option() -> None:
    """MODE is in the message that creates it, and pyroute2 reads each option as it was meant."""
    options = {"mode": 1, "miimon": 50, "updelay": 100, "num_peer_notif": 3, "fail_over_mac": 1}
    made = link_messages.set_bond(
        steps.SetBond("bond0", options, create=True, mac="02:00:00:00:00:01", mtu=9000)
    )
    found = decoded(made.body)
    info = dict(found["IFLA_LINKINFO"]["attrs"])
    data = dict(info["IFLA_INFO_DATA"]["attrs"])

    assert made.holes == ()
    assert (found["IFLA_IFNAME"], found["IFLA_MTU"]) == ("bond0", 9000)
    assert found["IFLA_ADDRESS"] == "02:00:00:00:00:01"
    assert info["IFLA_INFO_KIND"] == "bond"
    assert data == {f"IFLA_BOND_{name.upper()}": value for name, value in options.items()}


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - OURS_ALONE - {"arp_ip_target"}))
def test_numbers_of_options_are_pyroute2s(name: str) -> None:
    """An independent table agrees on number and width of every option that it knows."""
    value: object = "eth0" if name in link_messages.BY_INDEX else 1
    made = link_messages.set_bond(steps.SetBond("bond0", {name: value}))
    data = dict(decoded(made.body)["IFLA_LINKINFO"]["attrs"])["IFLA_INFO_DATA"]["attrs"]
    places = {name for _, name in made.holes}

    assert [key for key, _ in data] == [f"IFLA_BOND_{name.upper()}"]
    assert data[0][1] == (0 if name in link_messages.BY_INDEX else 1)
    assert places == ({"bond0", "eth0"} if name in link_messages.BY_INDEX else {"bond0"})


def test_an_unknown_option_is_an_error() -> None:
    """pyroute2 would leave it out without a word."""
    with pytest.raises(KeyError, match="no bond option mii_mon"):
        link_messages.set_bond(steps.SetBond("bond0", {"mii_mon": 100}))


def test_a_member_is_closed_and_enslaved_by_one_message() -> None:
    """Down and master together: the kernel does them in that order, with nothing in between."""
    made = link_messages.set_link(steps.SetLink("eth1", up=False, master="bond0"))
    found = decoded(made.body)

    assert found["flags"] & 1 == 0
    assert found["IFLA_MASTER"] == 0
    assert [name for _, name in made.holes] == ["eth1", "bond0"]


@pytest.mark.parametrize(
    "step",
    [
        steps.Burst((steps.SetLink("eth0", up=True), steps.DropLink("bond0"))),
        steps.SetSysctls({"net/ipv4/conf/bond0/rp_filter": "2"}, "sysctls"),
        steps.Await(("eth0",), bond="bond0"),
        steps.AskPath("eth0", ("10.0.0.1",)),
        steps.Announce("bond0", ("10.0.0.2",)),
        steps.Unchanged("eth0", "abc"),
        steps.WriteFile("/etc/x", "text"),
        steps.RestoreFile("/etc/x"),
        steps.Run(("true",)),
    ],
    ids=lambda step: type(step).__name__,
)
def test_every_step_is_plain_data(step: steps.Step) -> None:
    """What is compiled survives JSON unchanged in meaning, and says what it does in words."""
    document = step_document(step)

    assert json.loads(json.dumps(document))["text"] == step.text
    assert document["do"]


@pytest.mark.parametrize("module", ["guard", "boot"])
def test_guard_and_boot_need_the_standard_library_alone(module: str) -> None:
    """In a fresh interpreter they import nothing that an upgrade could have broken."""
    heavy = ("pyroute2", "yaml", "psutil", "rich", "paho", "systemd")
    look = f"print(' '.join(m for m in {heavy!r} if m in sys.modules))"
    code = f"import sys, linkhold.actuators.{module}; {look}"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.strip() == ""


@pytest.mark.parametrize(
    ("code", "words", "part"),
    [
        (1, "Device can not be enslaved while up", "stop its network manager"),
        (1, "", "run this as root"),
        (16, "Device is in use and cannot be enslaved", "remove the macvlan"),
        (16, "unable to set option because the bond is up", "set the bond down"),
        (39, "", "linkhold bond remove"),
        (22, "invalid value", "no such value"),
        (95, "", "modprobe bonding"),
        (105, "", "try again"),
    ],
)
def test_each_refusal_of_the_kernel_has_a_remedy(code: int, words: str, part: str) -> None:
    """By the kernel's words first, else by the errno."""
    assert part in remedy_for(code, words, "create bond bond0: mode 1")
